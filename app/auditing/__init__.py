"""The audit: what the server's own program prints of its binlog, against what stands in Kafka."""
