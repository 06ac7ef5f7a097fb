"""Mappings checked before a worker reads them."""
