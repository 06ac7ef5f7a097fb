"""The source's changes by ChangeId: its binlog as mysqlbinlog or mysql-replication reads it."""
