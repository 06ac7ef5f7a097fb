"""What befalls a table, and what must be printed for it.

Each function causes one trouble. The words are of the errors that must be listed, in their order; a trouble
of which the remedy is no command has a function for it, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from connectors.kafka.topics import TopicPlan
from devstack import Stack
from tests.harness.topics import on_kafka
from tests.harness.wait import until
from tests.hostile import quoted

PREFIX = "soak"
SECRET = {"secret": {"redact": "***"}}
"""What the mapping does with a column that some tables have."""


class At(NamedTuple):
    """Where a trouble happens."""

    stack: Stack
    cursor: Any
    warehouse: Path
    table: str
    rules: dict[str, Any]
    """The mapping, for the next version."""

    @property
    def full(self) -> str:
        """The table's name in SQL."""
        return f"shop.{quoted(self.table)}"

    @property
    def topic(self) -> str:
        """Its topic."""
        return f"{PREFIX}.shop.{self.table}"

    @property
    def folder(self) -> Path:
        """Its folder in the warehouse."""
        return self.warehouse / "shop" / self.table

    def run(self, *statements: str) -> None:
        """Run statements at the source."""
        for one in statements:
            self.cursor.execute(one)


class Trouble(NamedTuple):
    """A kind of trouble."""

    cause: Callable[[At], None]
    shown: tuple[str, ...]
    mend: Callable[[At], None] | None = None


def torn(at: At) -> None:
    """Altered by a statement that is not in the binlog."""
    at.run(
        "SET sql_log_bin = 0",
        f"ALTER TABLE {at.full} MODIFY n int FIRST",
        "SET sql_log_bin = 1",
    )


def configured(at: At, name: str, value: str) -> None:
    """Change a setting of the topic as it was made."""
    plan = TopicPlan(name=at.topic, partitions=2, replication_factor=1, max_message_bytes=16 << 20)
    config = ConfigResource(ConfigResourceType.TOPIC, at.topic, plan.config() | {name: value})
    on_kafka(at.stack, lambda admin: admin.alter_configs([config]))


def small_topic(at: At) -> None:
    """Its topic takes no record, but markers of transactions."""
    configured(at, "max.message.bytes", "200")


def late_topic(at: At) -> None:
    """Its topic refuses records of a time that is not now."""
    configured(at, "message.timestamp.before.max.ms", "0")


def topic_gone(at: At) -> None:
    """Its topic is deleted."""
    on_kafka(at.stack, lambda admin: admin.delete_topics([at.topic]))


def records_gone(at: At) -> None:
    """What the sink has not read of its topic is removed."""
    ends = {TopicPartition(at.topic, one): RecordsToDelete(before_offset=-1) for one in range(2)}
    on_kafka(at.stack, lambda admin: admin.delete_records(ends))


def masked_dropped(at: At) -> None:
    """The column of a rule of the mapping is dropped."""
    at.run(f"ALTER TABLE {at.full} DROP COLUMN secret")


def unmasked(at: At) -> None:
    """The rule is removed."""
    del at.rules[f"shop.{at.table}"]


def other_key(at: At) -> None:
    """Another column becomes its key."""
    at.run(f"ALTER TABLE {at.full} DROP PRIMARY KEY, ADD PRIMARY KEY (n)")


def numbered(at: At) -> None:
    """A statement gives all its rows values that are in no record."""
    at.run(f"ALTER TABLE {at.full} ADD COLUMN k int AUTO_INCREMENT UNIQUE")


def files_gone(at: At) -> None:
    """Its files in the warehouse are deleted, and a row in them changes."""
    for file in at.folder.glob("**/*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    at.run(f"UPDATE {at.full} SET note = 'changed' WHERE id = 1", "COMMIT")


def folder_gone(at: At) -> None:
    """Its folder in the warehouse is deleted."""
    # What the sink writes meanwhile may be in the way.
    while at.folder.exists():
        shutil.rmtree(at.folder, ignore_errors=True)


def older_copy(at: At) -> None:
    """A copy of its folder is put back, which is older than what the ledger has."""
    copy = at.warehouse.parent / f"copy of {at.table}"
    before = _merges(at)
    shutil.copytree(at.folder, copy)
    # If the sink were stopped after the first, its batch would not be in the ledger yet.
    until(lambda: _merges(at) >= before + 2, seconds=600)
    folder_gone(at)
    copy.rename(at.folder)


def _merges(at: At) -> int:
    """How many merges its log has."""
    logs = at.folder.glob("_delta_log/*.json")
    return sum('"operation":"MERGE"' in file.read_text() for file in logs)


def append_only(at: At, to: str = "true") -> None:
    """Another program forbids updates of it, in a commit of Delta."""
    while True:
        log = sorted(at.folder.glob("_delta_log/*.json"))
        found = [one for file in log for one in _actions(file) if "metaData" in one]
        changed = found[-1]
        changed["metaData"]["configuration"]["delta.appendOnly"] = to
        with contextlib.suppress(FileExistsError):
            number = int(log[-1].stem) + 1
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            handle = os.open(at.folder / f"_delta_log/{number:020}.json", flags)
            info = {"timestamp": time.time_ns() // 10**6, "operation": "SET TBLPROPERTIES"}
            with os.fdopen(handle, "w") as file:
                file.write(f"{json.dumps({'commitInfo': info})}\n{json.dumps(changed)}\n")
            return


def _actions(file: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, file.read_text().splitlines())


def appended(at: At) -> None:
    """Updates are allowed again."""
    append_only(at, "false")


TROUBLES: Mapping[str, Trouble] = {
    "torn": Trouble(torn, ("is 'n' in its rows",)),
    "small topic": Trouble(small_topic, ("the topic takes 200",)),
    "late topic": Trouble(late_topic, ("message.timestamp.before.max.ms is 0",)),
    "topic gone": Trouble(topic_gone, ("TopicGone", "TopicReplaced")),
    "records gone": Trouble(records_gone, ("ChangesLost",)),
    "masked dropped": Trouble(masked_dropped, ("secret",), unmasked),
    "other key": Trouble(other_key, ("KeyChanged",)),
    "numbered": Trouble(numbered, ("(AUTO_INCREMENT)",)),
    "files gone": Trouble(files_gone, ("TableFailed",)),
    "folder gone": Trouble(folder_gone, ("TableReplaced",)),
    "older copy": Trouble(older_copy, ("TableReplaced",)),
    "append only": Trouble(append_only, ("appendOnly",), appended),
}
