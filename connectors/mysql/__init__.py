"""MySQL and MariaDB sources: the replica stream, binlog events, transactions, rows and table schemas."""
