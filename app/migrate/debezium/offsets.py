"""Debezium's offset: the position after which a connector resumes.

Format: the value in Connect's offset topic, with or without its key, or the answer of
``GET /connectors/NAME/offsets``. ``file`` and ``pos`` are where the present transaction begins, ``gtids`` the
transactions that are complete, ``event`` and ``row`` what is already published of the present one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from connectors.errors import UsageError

_REMEDY = "Save the answer of GET /connectors/NAME/offsets, or the value in the topic of offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position of Debezium."""

    file: str
    position: int
    gtid_set: str
    within: bool
    """Whether a part of the transaction at the position is published."""
    events: int
    """Complete events of that transaction, from BEGIN on."""
    rows: int
    """Published rows of the next event."""
    in_snapshot: bool
    """Whether the snapshot had not ended."""


def read_offset(path: Path) -> Offset:
    """Read an offset; raise UsageError for another file, or one with several sources."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    try:
        return _offset(_value(text, path))
    except (ValueError, TypeError, KeyError, IndexError):
        raise UsageError(f"{path} is no offset of Debezium", remedy=_REMEDY) from None


def _value(text: str, path: Path) -> dict[str, Any]:
    """The object with the position; of several lines with key and value, as a consumer prints, the last."""
    if "\t" in text:
        text = text.strip().splitlines()[-1].rpartition("\t")[2]
    found = orjson.loads(text)
    if len(found.get("offsets", ())) > 1:
        remedy = "Keep only the connector's own"
        raise UsageError(f"{path} has offsets of several sources", remedy=remedy)
    value: dict[str, Any] = found["offsets"][0] if "offsets" in found else found
    return dict(value.get("offset", value))


def _offset(found: dict[str, Any]) -> Offset:
    return Offset(
        file=str(found["file"]),
        position=int(found["pos"]),
        gtid_set="".join(str(found.get("gtids") or "").split()),
        events=int(found.get("event") or 0),
        rows=int(found.get("row") or 0),
        within=bool(found.get("event") or found.get("row")),
        in_snapshot=str(found.get("snapshot") or "false").lower() != "false",
    )
