"""Benchmarks of Aqueduct and its peers: the same binlog, the same broker, one after the other."""
