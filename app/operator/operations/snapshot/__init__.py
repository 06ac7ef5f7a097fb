"""Operations on snapshots: what is read of the existing rows, and its progress."""
