"""What DDL does to tables: statements read, and applied to what is known of a server's tables."""
