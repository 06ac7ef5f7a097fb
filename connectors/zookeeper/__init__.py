"""ZooKeeper: sessions and nodes; ``app/coordination`` decides which worker leads."""
