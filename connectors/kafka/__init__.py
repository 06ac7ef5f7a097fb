"""Kafka: the transactional producer, record batches, partitions, and errors by name."""
