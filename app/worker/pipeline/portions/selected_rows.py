"""Rows that existed before, as a SELECT has returned them.

Invariant: they enter between two transactions, at a position that is not before any change that the SELECT
saw; a row whose key changed since their generation began is dropped there, and has no number. They move
neither the position nor the GTIDs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.worker.pipeline.number.changed_keys import Name
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRows:
    """The rows of one read, which fit into one Kafka transaction."""

    start: Coordinates
    """The position between transactions at which they enter."""
    table: Name
    read: str
    """The name of the read, which is unique in the destination: the rows' ids begin with it."""
    id: int
    """For the report of the outcome to the owner."""
    read_ms: int
    """When the SELECT began, milliseconds since 1970."""
    server_id: int
    attempt: int = 0
    """Once one read is refused, later ones of the same attempt are too."""
    since: int
    """The generation of the table's keys that began before the SELECT."""
    begins: int
    """The generation that begins after these rows."""
    kept: int
    """The oldest generation that another read still needs."""
    table_map: bytes
    blocks: tuple[bytes, ...]
    """The packets of whole rows each, as ``connectors.mysql.select.prepared_select`` returns them."""
    note: tuple[bytes, bytes]
    """The journal's record of this read, key and value; not written if the rows are refused."""
    empties: bool = False
    """Whether all earlier rows of the table are gone, as subscribers are to learn before these."""
    is_read: bool = True
    """Whether it is of a SELECT, whose rows may have changed since; else nothing is checked."""
    is_last: bool = True
    """Whether no more of the same read follow, so that its owner learns of the outcome with these."""
    replaced: bool = False
    """Whether they are the last rows of a table that replace those before, as subscribers are to learn."""
    removes: tuple[str, ...] = ()
    """Keys of records for which the SELECT looked: those of which it returned no row that is published are
    deleted."""
    effect: None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.table_map) + sum(map(len, self.blocks))


class Entered(NamedTuple):
    """The outcome of a portion with an owner, once it is numbered."""

    id: int
    rows: int = 0
    """Count of rows published."""
    dropped: int = 0
    """Count of rows of which the stream has published newer images."""
    refused: str | None = None
    """Why none of the rows is published, and they have to be read again."""
    unreadable: str | None = None
    """Why they cannot be read at all."""
    removed: int = 0
    """Count of deletes published, of rows that the SELECT did not return."""
    is_last: bool = True
    """Whether no more portions with this id follow."""
