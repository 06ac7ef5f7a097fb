"""The installation's record: the random id that is part of every transactional id.

Invariant: each proposal has a key of its own, and the first in the partition is valid.
"""

from __future__ import annotations

from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_kind import Kind

INSTALLATION: Kind[Any] = Kind(name="installation", is_plain=True)
INSTALLATION_PARTITION = 0


def installation_key(installation: str) -> bytes:
    """The key of an installation's record: ``installation/<id>``."""
    return INSTALLATION.key(installation)


def is_installation(record: StoredRecord) -> bool:
    """Whether a record is of an installation."""
    return INSTALLATION.is_of(record.key)


def installation_in(record: StoredRecord) -> str:
    """The installation's id in such a record's key."""
    return record.key.decode("utf-8", "replace").partition("/")[2]
