"""Measures Aqueduct beside its peers: the same binlog, the same broker, one after the other."""
