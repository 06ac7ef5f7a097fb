"""Stores beside Kafka: rows that are too large for their topics, and the schemas of records in Avro."""
