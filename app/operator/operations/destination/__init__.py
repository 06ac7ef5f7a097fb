"""Operations on destinations: list all, and set the desired state of one."""
