"""The key implied by a partial row image, compared with the key by which its rows are published.

Invariant: an image before a change lacks columns in two cases only. With
``binlog_row_image=MINIMAL`` it has the columns of the server's key and no other; with ``NOBLOB`` it
has all columns except some stored as BLOBs, and always the key's. A table without a key has all
columns in MINIMAL images.
Source: ``binlog_prepare_row_images`` in MySQL's and MariaDB's ``log_event`` code.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.binlog.table_map import FieldType, TableMap

_T = FieldType
_BLOBS = {_T.BLOB, _T.BLOB_COMPRESSED, _T.JSON, _T.GEOMETRY, _T.VECTOR}


def key_contradiction(table_map: TableMap, present: Sequence[bool]) -> str | None:
    """The contradiction between the columns of an image before a change and the table's key;
    None if there is none."""
    if all(present):
        return None
    key = set(table_map.primary_key or ())
    there = {index for index, is_there in enumerate(present) if is_there}
    lacks_blobs_only = all(
        is_there or column.type in _BLOBS
        for column, is_there in zip(table_map.columns, present, strict=True)
    )
    if key <= there and (there == key or lacks_blobs_only):
        return None
    names = [column.name or "" for column in table_map.columns]
    shown = ", ".join(names[index] for index in sorted(there))
    defined = ", ".join(names[index] for index in table_map.primary_key or ())
    return f"its images before a change identify rows by ({shown}), its key is ({defined}) defined"
