"""Operations on the shards of logical tables."""
