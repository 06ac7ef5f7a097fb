"""The outside world: MySQL's binlog, Kafka, ZooKeeper, the claim-check store, and the wire contract."""
