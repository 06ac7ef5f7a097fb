"""ZooKeeper: sessions and nodes; who leads what is decided in ``app``."""
