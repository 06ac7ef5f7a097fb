"""Logical schemas: published when a shard changes, and decided on by operators."""
