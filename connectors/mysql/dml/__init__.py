"""DML that the binlog holds as statements: the tables that each writes."""
