"""Versions of the mapping in ZooKeeper: stored, watched, and brought into force."""
