"""The key of the last row that was read, as the journal stores it: sealed if the table has masked columns.

Invariant: a stored key contains nothing raw of a masked table's row. A key that cannot be opened, or was sealed
for another table, is never used. A key that was stored plain, before a column was masked, stays readable.

An earlier version of Aqueduct does not know sealed keys. It takes them for keys in another order, and begins at
the first row.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from connectors.errors import MappingError
from tables.rules.masking import MaskingKeys, opened, sealed
from tables.state.snapshots.snapshot_progress import SNAPSHOT, TableSnapshot

Stored = tuple[str, ...]
_SEALED = "sealed"
"""Replaces a key's order, which has a space; the id of the sealing key and the sealed key follow."""

_WHAT = "the key of the last row that was read"
_REMEDY = (
    "Restart the worker with the key file as it was; or read the table from its first row, with "
    "`snapshot stop` and `snapshot start`."
)


@dataclass(frozen=True, slots=True)
class ResumeKeys:
    """Stores and reads the keys of one table."""

    about: bytes
    """What the keys belong to."""
    keys: MaskingKeys = field(repr=False)
    is_masked: bool
    """Whether the table has masked columns."""

    @classmethod
    def of(cls, snapshot: TableSnapshot, keys: MaskingKeys, *, is_masked: bool) -> ResumeKeys:
        """Return the keys of a table, whichever of its snapshots stores them."""
        names = snapshot.destination, snapshot.database, snapshot.table
        return cls(SNAPSHOT.key(*names), keys, is_masked)

    def stored(self, last: Sequence[str]) -> Stored:
        """Return a key as it is stored; ``last``: the order of the key, and the literals of its values."""
        if not self.is_masked:
            return tuple(last)
        name, raw = sealed(self.keys, orjson.dumps(last), self.about)
        return _SEALED, name, base64.b64encode(raw).decode()

    def read(self, stored: Stored | None) -> Stored | None:
        """Return the stored key.

        Raise MappingError if it is damaged, or if its sealing key is missing or has changed.
        """
        if stored is None or stored[0] != _SEALED:
            return stored
        try:
            _, name, text = stored
            raw = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            raise MappingError(f"{_WHAT} is damaged", remedy=_REMEDY) from None
        try:
            return tuple(orjson.loads(opened(self.keys, name, raw, self.about)))
        except MappingError as error:
            raise MappingError(f"{_WHAT} is sealed: {error.detail}", remedy=_REMEDY) from None
