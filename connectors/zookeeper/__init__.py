"""ZooKeeper: sessions and nodes; ``app/worker/coordination`` decides which worker leads."""
