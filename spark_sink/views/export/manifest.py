"""The manifest of a snapshot: what it contains, and as of which transactions.

A snapshot's folder has `cut.json` from its beginning, and `manifest.json` once it is complete.

Invariant: a folder without a manifest is no snapshot. A stored manifest stays readable by its `format`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_sink.warehouse.milestones import Positions
from spark_sink.warehouse.protocol import Name
from wire.text import utc_seconds

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
CUT: Final = "cut.json"
_FOLDER: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTable:
    """One table of a snapshot."""

    name: Name
    path: str
    """Its folder within the snapshot's."""
    rows: int
    columns: tuple[tuple[str, str], ...]
    """Names and types, as Spark SQL writes them."""
    files: tuple[str, ...]
    """The names of its files, in its folder."""

    def body(self) -> dict[str, Any]:
        """The table as the manifest has it."""
        return {
            "database": self.name[0],
            "table": self.name[1],
            "path": self.path,
            "rows": self.rows,
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
            "files": list(self.files),
        }


def cut_text(positions: Positions, tables: Collection[Name]) -> str:
    """The text of `cut.json`: the cut, and the tables that are asked for (empty: all tables)."""
    body = {
        "format": FORMAT,
        "tables": sorted(map(list, tables)),
        "positions": {
            name: {
                "epoch": one.epoch,
                "seq": one.seq,
                "committed": utc_seconds(one.ts_ms),
                "ts_ms": one.ts_ms,
                "transaction": one.transaction or None,
            }
            for name, one in sorted(positions.items())
        },
    }
    return json.dumps(body, indent=1)


def folder_of(positions: Positions, cut: str) -> str:
    """The name of a snapshot's folder: the time of the cut's newest commit, and a hash of `cut.json`."""
    newest = utc_seconds(max((one.ts_ms for one in positions.values()), default=0))
    digest = hashlib.sha256(cut.encode()).hexdigest()[:8]
    return f"{re.sub('[-:]', '', newest)}-{digest}"


def is_folder(name: str) -> bool:
    """Whether a name has the form of those that `folder_of` returns."""
    return _FOLDER.fullmatch(name) is not None


def manifest_text(
    cut: str,
    tables: Collection[SnapshotTable],
    omitted: Mapping[Name, str],
    *,
    written_ms: int,
) -> str:
    """The manifest: the cut, its tables, and the tables of the warehouse that have no state in the cut."""
    body = {
        "format": FORMAT,
        "written_ms": written_ms,
        "positions": json.loads(cut)["positions"],
        "tables": [one.body() for one in sorted(tables, key=lambda one: one.name)],
        "omitted": [
            {"database": database, "table": table, "reason": reason}
            for (database, table), reason in sorted(omitted.items())
        ],
    }
    return json.dumps(body, indent=1)


def written_ms(manifest: str) -> int:
    """When a manifest was written."""
    return int(json.loads(manifest)["written_ms"])
