"""Failover: the choice of a source, its heartbeat, and a cursor translated to another server."""
