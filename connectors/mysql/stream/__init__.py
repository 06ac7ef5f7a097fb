"""From the server to chunks: the replica connection, its packets, and the cutter that ends each chunk."""
