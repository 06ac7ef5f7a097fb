"""A warehouse in Delta Lake: the only user of Delta's libraries, of its files and of SQL against tables."""

from spark_sink.warehouse.delta.warehouse import current

__all__ = ["current"]
