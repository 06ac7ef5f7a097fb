"""The key implied by a partial row image, compared with the key by which its rows are published.

Invariant: an image before a change lacks columns in two cases only. With
``binlog_row_image=MINIMAL`` it has the columns of the server's key and no other; with ``NOBLOB`` it
has all columns except some stored as BLOBs, and always the key's. A table without a key has all
columns in MINIMAL images. MariaDB's row hashes are present in some images and absent from others.
Source: ``binlog_prepare_row_images`` in MySQL's and MariaDB's ``log_event`` code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.types.registry import binlog_type


def key_contradiction(
    table_map: TableMap, present: Sequence[bool], *, hidden: Collection[int] = ()
) -> str | None:
    """The contradiction between the columns of an image before a change and the table's key; None
    if there is none. ``hidden``: row hashes, which are ignored."""
    key = set(table_map.primary_key or ())
    shown = set(range(len(present))).difference(hidden)
    there = {index for index in shown if present[index]}
    lacking = shown - there
    if not lacking:
        return None
    types = (binlog_type(table_map.columns[index].type) for index in lacking)
    lacks_blobs_only = all(one is not None and one.is_blob for one in types)
    if key <= there and (there == key or lacks_blobs_only):
        return None
    names = [column.name or "" for column in table_map.columns]
    found = ", ".join(names[index] for index in sorted(there))
    defined = ", ".join(names[index] for index in table_map.primary_key or ())
    return f"its images before a change identify rows by ({found}), its key is ({defined}) defined"
