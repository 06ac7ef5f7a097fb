"""Debezium's connectors for MySQL and MariaDB imported: configuration and offsets."""
