"""ZooKeeper: sessions and nodes; which worker leads is decided in ``app/coordination``."""
