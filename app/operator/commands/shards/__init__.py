"""`shards`: show the real tables of logical ones and how they differ, and decide on that."""
