"""The commits of Iceberg tables since the sink's last one, by the tables' snapshots.

The sink marks its snapshots. So a snapshot is known to be its own even if the sink was killed just after. Only
the snapshot of a DELETE that removes whole files does not get the mark from Iceberg, but names the application.
So the sink notes which applications are its own.

Invariant: only the metadata of tables is read, never a row.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Final

from spark_sink.errors import TableReplaced
from spark_sink.settings.required_conf import COMMIT_MARK, ICEBERG_MARK
from spark_sink.text.quoting import APPLICATIONS
from spark_sink.warehouse.common.conflicts import again, refuse_older, replaced
from spark_sink.warehouse.common.statements import made_in
from spark_sink.warehouse.iceberg.catalog import Catalog, IcebergTable
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.milestones import Commit
from spark_sink.warehouse.notes import Notes, json_of
from spark_sink.warehouse.protocol import ForeignCommit, Name, Standing

_APPLICATIONS_KEPT: Final = 1000
"""There is one application for each run, even if the run finds nothing to merge."""
_OF_ROWS: Final = ("added-records", "deleted-records", "added-delete-files", "deleted-data-files")


def _folder(location: str) -> str:
    """The part of a folder's name that all names of the folder have in common."""
    scheme, is_uri, rest = location.rpartition("://")
    if not is_uri or scheme == "file":
        return os.path.realpath(rest.removeprefix("file:"))
    # A name service or an account may have several names, but a bucket has one.
    own = rest if scheme.startswith("s3") else "/".join(rest.split("/")[1:])
    return f"/{own.strip('/')}"


@dataclass(slots=True, kw_only=True)
class IcebergCommits:
    """See protocol.Commits."""

    tables: IcebergTables
    notes: Notes
    _applications: list[str] = field(default_factory=list)
    """The identifiers of the sink's applications, this one last."""

    def announce(self) -> None:
        self.notes.write(APPLICATIONS, json.dumps(self._own()))

    def is_at(self, name: Name, commit: Commit) -> bool:
        found = self._catalog.table(self.tables.place(*name))
        if found is None:
            return False
        self._refuse_copied(name, found)
        return commit == Commit(found.version(), str(found.snapshot() or ""))

    def descends(self, name: Name, commit: Commit) -> bool:
        table = self._catalog.table(self.tables.place(*name))
        found = None if table is None else table.snapshot_at(commit.version)
        return commit.number == "" or found is None or str(found) == commit.number

    def since(self, name: Name, left: Commit | None) -> Standing | None:
        found = self._catalog.table(self.tables.place(*name))
        if found is None:
            return None
        self._refuse_copied(name, found)
        commits = found.lineage()
        newest = next(commits, None)
        last = Commit(0) if newest is None else Commit(newest[0], str(newest[1]))
        foreign = self._foreign(name, found, last, left) if left is not None else []
        schema, (made, coming) = found.schema(), made_in(found.properties())
        columns = {one.name: one.dataType.simpleString() for one in schema.fields}
        is_known = left is not None and left.number and not coming
        lost = found.replaced_columns(int(left.number)) if left is not None and is_known else ()
        needed = sorted(one.name for one in schema.fields if not one.nullable)
        return Standing(
            commit=last,
            columns=columns,
            made=made,
            is_altering=bool(coming),
            lost=tuple(lost),
            foreign=tuple(foreign),
            obstacle=f"{needed[0]} is NOT NULL" if needed else "",
        )

    def _foreign(
        self, name: Name, table: IcebergTable, last: Commit, left: Commit
    ) -> list[ForeignCommit]:
        """The commits of other programs that changed rows. Raise TableReplaced."""
        refuse_older(name, last, left)
        foreign: list[ForeignCommit] = []
        is_first, version = False, last.version
        for version, number, operation, at_ms, summary in table.lineage():
            if version <= left.version:
                if version == left.version and left.number not in ("", str(number)):
                    reason = f"its version {version} is not the one of the ledger"
                    raise replaced(name, reason)
                return foreign
            is_own = summary.get(ICEBERG_MARK) == COMMIT_MARK
            is_own = is_own or self.is_of_sink(str(summary.get("spark.app.id")))
            if not is_own and operation != "replace" and any(map(summary.get, _OF_ROWS)):
                foreign.append(ForeignCommit(version=version, operation=operation, at_ms=at_ms))
            is_first = table.is_first(number)
        if foreign and is_first and foreign[-1].version == version and left.version:
            # A table that is replaced begins with a snapshot that has no parent.
            raise replaced(name, f"another program replaced it, in its version {version}")
        return foreign

    def _refuse_copied(self, name: Name, table: IcebergTable) -> None:
        """Raise TableReplaced if a table was copied to its folder, as its files are in another one then."""
        if self.tables.root is None:
            return
        here = "/".join((self.tables.root, *self.tables.place(*name)))
        if _folder(table.location()) != _folder(here):
            raise TableReplaced(
                f"{'.'.join(name)}: its files are in {table.location()}, as Iceberg does not follow a copy to "
                "another folder",
                advice=f"Remove {here}, then: {again(name)}",
            )

    def is_of_sink(self, application: str) -> bool:
        """Whether an application is a sink of this warehouse."""
        if application not in self._own():
            # Another sink may have started since.
            self._applications = []
        return application in self._own()

    def _own(self) -> list[str]:
        """The identifiers of this application, and of earlier ones that are noted."""
        if not self._applications:
            now = str(self.tables.spark.sparkContext.applicationId)
            held = json_of(self.notes, APPLICATIONS, [])
            self._applications = [*(one for one in held if one != now), now][-_APPLICATIONS_KEPT:]
        return self._applications

    @property
    def _catalog(self) -> Catalog:
        return self.tables.catalog
