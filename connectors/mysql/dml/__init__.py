"""Changes of rows that the binlog holds as statements: which tables they write."""
