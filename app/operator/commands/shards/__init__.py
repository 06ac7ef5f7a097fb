"""`python -m app shards`: the real tables of logical ones, how they differ, and decisions on that."""
