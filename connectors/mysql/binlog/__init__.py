"""Binlog events from bytes to values: GTIDs, statements, table maps, XA; MySQL's and MariaDB's."""
