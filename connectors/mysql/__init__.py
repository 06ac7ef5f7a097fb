"""A MySQL or MariaDB server read as its replica: stream, binlog, transactions, rows; and its schemas."""
