"""Mappings of real tables to the logical tables, topics and tags of subscribers: read, checked, resolved."""
