"""The commits of Delta tables since the sink's last one, by the tables' logs.

The sink marks each of its commits. So a commit is known to be its own even if the sink was killed just after.

Invariant: only small files of the log are read, never a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_sink.errors import TableFailed
from spark_sink.settings.required_conf import COMMIT_MARK
from spark_sink.spark.files import Files
from spark_sink.warehouse.common.conflicts import again, refuse_older, replaced
from spark_sink.warehouse.common.statements import made_in
from spark_sink.warehouse.delta.log import DeltaLog, entries, version_of
from spark_sink.warehouse.milestones import Commit
from spark_sink.warehouse.protocol import ForeignCommit, Name, Standing
from wire.warehouse_folders import table_path

_REPLACING: Final = ("CREATE", "REPLACE", "RESTORE", "CLONE", "CONVERT")
"""The first words of the operations that replace the contents of a table as a whole."""
_ALL_ROWS: Final = (None, "", "[]", "true")
"""The conditions of a write that overwrites all rows."""
_REFUSING: Final = "delta.constraints."


class DeltaCommits:
    """See protocol.Commits."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root
        self._files = Files(spark)

    def announce(self) -> None:
        """See protocol.Commits. Each commit has the mark."""

    def is_at(self, name: Name, commit: Commit) -> bool:
        """See protocol.Commits. Delta's own state of the table is not loaded, as that takes much longer."""
        path = table_path(self._root, *name)
        found = entries(self._files, path)
        if not found or max(map(version_of, found)) != commit.version:
            return False
        return commit.number != "" and self._number(path, commit.version) == commit.number

    def descends(self, name: Name, commit: Commit) -> bool:
        found = self._number(table_path(self._root, *name), commit.version)
        return commit.number == "" or found in ("", commit.number)

    def since(self, name: Name, left: Commit | None) -> Standing | None:
        """See protocol.Commits. Raise TableFailed if an entry of the log cannot be read."""
        try:
            return self._since(name, left)
        except ValueError as fault:
            raise TableFailed(
                f"{'.'.join(name)}: its log cannot be read: {fault}", advice=again(name)
            ) from fault

    def _since(self, name: Name, left: Commit | None) -> Standing | None:
        path = table_path(self._root, *name)
        if not entries(self._files, path):
            return None
        log = DeltaLog(self._spark, path)
        version, metadata = log.version_and_metadata()
        if version < 0:
            return None
        last = Commit(version, self._number(path, version))
        foreign: list[ForeignCommit] = []
        lost: set[str] = set()
        if left is not None:
            refuse_older(name, last, left)
            is_last = left.version == version
            found = last.number if is_last else self._number(path, left.version)
            if left.number and found and found != left.number:
                raise replaced(name, f"its version {left.version} is not the one of the ledger")
            for number, actions in self._foreign(path, left.version + 1, version):
                one = _commit(name, number, actions)
                if any(_changes_rows(action) for action in actions):
                    foreign.append(one)
                lost |= _dropped(actions)
        properties = metadata["configuration"]
        made, coming = made_in(properties)
        schema = StructType.fromJson(json.loads(metadata["schemaString"]))
        return Standing(
            commit=last,
            columns={one.name: one.dataType.simpleString() for one in schema.fields},
            made=made,
            is_altering=bool(coming),
            lost=tuple(sorted(lost)),
            foreign=tuple(foreign),
            obstacle=_obstacle(properties, schema),
        )

    def _number(self, path: str, version: int) -> str:
        """What identifies a commit; empty once it is removed from the log."""
        first = self._files.first_line(_entry(path, version))
        return str(_info(json.loads(first)).get("txnId", "")) if first else ""

    def _foreign(
        self, path: str, first: int, last: int
    ) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The actions of the commits that are not the sink's own, as far as the log still has them."""
        for version in range(first, last + 1):
            line = self._files.first_line(_entry(path, version))
            if not line or _info(json.loads(line)).get("userMetadata") == COMMIT_MARK:
                continue
            text = self._files.read(_entry(path, version)) or ""
            yield version, [json.loads(one) for one in text.split("\n") if one]


def _entry(path: str, version: int) -> str:
    return f"{path}/_delta_log/{version:020}.json"


def _info(action: Mapping[str, Any]) -> Mapping[str, Any]:
    return action.get("commitInfo") or {}


def _commit(name: Name, version: int, actions: list[dict[str, Any]]) -> ForeignCommit:
    """A foreign commit. Raise TableReplaced if it replaces the contents of the table as a whole."""
    info = next((found for action in actions if (found := _info(action))), {})
    operation = str(info.get("operation", "a commit"))
    given = info.get("operationParameters") or {}
    # The condition `replaceWhere` is text; other writers leave it out, or write an empty list.
    is_whole = given.get("mode") == "Overwrite" and given.get("predicate") in _ALL_ROWS
    if operation.startswith(_REPLACING) or (operation == "WRITE" and is_whole):
        raise replaced(name, f"{operation} by another program made its version {version}")
    return ForeignCommit(version=version, operation=operation, at_ms=int(info.get("timestamp", 0)))


def _changes_rows(action: Mapping[str, Any]) -> bool:
    changes = (action.get("add"), action.get("remove"))
    return any(bool(one.get("dataChange", True)) for one in changes if one)


def _dropped(actions: list[dict[str, Any]]) -> set[str]:
    """The columns that a commit has removed."""
    found: set[str] = set()
    for action in actions:
        info = _info(action)
        if info.get("operation") == "DROP COLUMNS":
            found |= set(json.loads((info.get("operationParameters") or {}).get("columns", "[]")))
    return found


def _obstacle(properties: Mapping[str, str], schema: StructType) -> str:
    """What makes Delta refuse a merge; empty if nothing does."""
    if properties.get("delta.appendOnly", "").lower() == "true":
        return "delta.appendOnly is set"
    for key in sorted(properties):
        if key.startswith(_REFUSING):
            return f"it has the constraint {key.removeprefix(_REFUSING)}"
    needed = sorted(one.name for one in schema.fields if not one.nullable)
    return f"{needed[0]} is NOT NULL" if needed else ""
