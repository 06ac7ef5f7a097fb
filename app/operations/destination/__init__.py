"""Operations on destinations: all of them listed, and the desired state of one."""
