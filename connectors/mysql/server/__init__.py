"""One server: connection, facts, preflight, privileges, replication and its filters."""
