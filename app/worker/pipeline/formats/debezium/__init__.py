"""Debezium's envelope in JSON, with the values that docs/wire.md lists."""
