"""The audit: the source's own binlog against the topics, and the topics against the warehouse."""
