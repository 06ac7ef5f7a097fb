"""Mappings of real tables to the logical tables, topics and tags that subscribers know."""
