"""What touches the outside world: MySQL's binlog, Kafka, ZooKeeper, and the wire contract."""
