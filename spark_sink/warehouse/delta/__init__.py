"""A warehouse in Delta Lake: all SQL against tables, all Delta libraries and all files are used here."""

from spark_sink.warehouse.delta.warehouse import current

__all__ = ["current"]
