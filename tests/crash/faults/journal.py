"""Manual damage to the journal: records edited, forged, removed; the topic truncated or recreated."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from connectors.kafka.reading import read_to_end
from tables.state.cursor import Cursor
from tables.state.journal.records import INSTALLATION_PARTITION
from tests.crash.scenario import fault
from tests.crash.scene import DESTINATION, JOURNAL_PARTITION, Scene

Edit = Callable[[dict[str, Any]], dict[str, Any]]
Deed = Callable[[Scene], None]


def installation(at: Scene) -> str:
    """The installation's id, out of the journal."""
    options, topic = {"bootstrap_servers": at.servers.kafka}, f"{at.prefix}.__journal"
    keys = [
        record.key.decode()
        for record in asyncio.run(read_to_end(options, topic, INSTALLATION_PARTITION))
    ]
    return next(key for key in keys if key.startswith("installation/")).partition("/")[2]


def _checked(cursor: dict[str, Any]) -> dict[str, Any]:
    """A cursor with a valid checksum, whatever its contents."""
    del cursor["check"]
    return {**cursor, **Cursor.from_json(cursor).to_json()}


def _refuses(name: str, what: str, error: str) -> Callable[[Deed], Deed]:
    """Do this to the journal while no worker runs; the next one must stop with the error."""

    def register(deed: Deed) -> Deed:
        @fault(f"journal.{name}", what, error=error)
        def act(at: Scene) -> str:
            _down(at)
            deed(at)
            return _refused(at, error)

        return deed

    return register


def _edited(name: str, what: str, edit: Edit, error: str) -> None:
    @_refuses(name, f"a cursor {what} is written by hand", error)
    def deed(at: Scene) -> None:
        last = at.topics().cursors[-1]
        _write(at, f"cursor/{DESTINATION}", orjson.dumps(edit(dict(last))))


_edited(
    "epoch-back",
    "of an earlier epoch",
    lambda c: {**c, "epoch": c["epoch"] - 1},
    "JournalUnreadable",
)
_edited("seq-back", "with a smaller seq", lambda c: {**c, "seq": c["seq"] - 5}, "JournalUnreadable")
_edited(
    "seq-ahead", "with a greater seq", lambda c: {**c, "seq": c["seq"] + 7}, "JournalUnreadable"
)
_edited(
    "foreign",
    "of another installation",
    lambda c: _checked({**c, "installation": "0123456789ab"}),
    "ForeignInstallation",
)
_edited(
    "foreign-source",
    "of another server",
    lambda c: _checked(
        {
            **c,
            "server_uuid": str(uuid.UUID(int=7)),
            "gtid_set": f"{uuid.UUID(int=7)}:1-50",
        }
    ),
    "SourceDiverged",
)
_edited("newer", "in a newer format", lambda c: {**c, "format": 99}, "JournalTooNew")
_edited("unreadable", "with missing fields", lambda _c: {"format": 1}, "JournalUnreadable")


@_refuses("tombstone", "the cursor is deleted by hand with a tombstone", "JournalUnreadable")
def tombstone(at: Scene) -> None:
    _write(at, f"cursor/{DESTINATION}", None)


@_refuses("cut", "all records of the journal are deleted by hand", "JournalDamaged")
def cut(at: Scene) -> None:
    asyncio.run(_delete_records(at))


@_refuses(
    "deleted",
    "the journal's topic and the worker's data directory are deleted by hand",
    "JournalDamaged",
)
def deleted(at: Scene) -> None:
    asyncio.run(_delete_topic(at))


def _down(at: Scene) -> None:
    at.begin()
    at.pause(1, 2)
    at.worker.again = False
    at.worker.kill()
    at.wait(lambda: bool(at.worker.exits), "does not end")
    at.load.stop()


def _refused(at: Scene, expected: str) -> str:
    """A new worker stops by name and publishes nothing; what was done by hand is no fault of the topics."""
    before = len(at.topics().records)
    second = at.start()
    second.again = False
    at.wait(
        lambda: at.state(second) == "FAILED" or bool(second.exits),
        "does not refuse it",
        seconds=45,
    )
    status = str(at.status(second).get("error") or "")
    error = status.partition(":")[0] or _last_error(second.log)
    assert error == expected, f"it stopped with {error or second.exits}: {status}"
    second.stop()
    assert len(at.topics().records) == before, "it published all the same"
    _repair(at)
    return f"refused: {error}"


def _last_error(log: str) -> str:
    found = [word.strip(":,") for word in log.split() if word.strip(":,").startswith("Journal")]
    return found[-1] if found else ""


def _repair(at: Scene) -> None:
    """Leave the hand's own record out of the verdict."""
    at.forged = True


def _write(at: Scene, key: str, value: bytes | None) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=at.servers.kafka)
        await producer.start()
        await producer.send_and_wait(
            f"{at.prefix}.__journal", key=key.encode(), value=value, partition=JOURNAL_PARTITION
        )
        await producer.stop()

    asyncio.run(write())


async def _admin(at: Scene) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(bootstrap_servers=at.servers.kafka)
    await admin.start()
    return admin


async def _delete_records(at: Scene) -> None:
    name = f"{at.prefix}.__journal"
    admin = await _admin(at)
    try:
        # A compacted topic gives up no records before it is allowed to.
        await _configure(admin, name, "delete")
        all_of_it = {INSTALLATION_PARTITION, JOURNAL_PARTITION}
        await admin.delete_records(
            {TopicPartition(name, each): RecordsToDelete(before_offset=-1) for each in all_of_it}
        )
        await _configure(admin, name, "compact")
    finally:
        await admin.close()


async def _configure(admin: AIOKafkaAdminClient, name: str, policy: str) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    configs = {"cleanup.policy": policy, "retention.ms": "-1"}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs=configs)])


async def _delete_topic(at: Scene) -> None:
    admin = await _admin(at)
    try:
        await admin.delete_topics([f"{at.prefix}.__journal"])
    finally:
        await admin.close()
