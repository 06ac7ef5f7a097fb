"""Routes: which tables are published, and for each one its logical name, topic, partitions and key."""
