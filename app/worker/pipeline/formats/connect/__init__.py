"""Debezium's envelope with a connector's own forms of values, as Kafka Connect's JSON converter writes it."""
