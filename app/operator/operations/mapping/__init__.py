"""Operations on mappings: check one before a worker reads it; its versions in ZooKeeper."""
