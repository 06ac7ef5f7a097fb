"""The open transactions that are listed, and the one that is aborted."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pytest

from app.operator import journal as journal_commands
from connectors.errors import StateUnknown, UsageError
from connectors.kafka.open_transactions import OpenTransaction, held_up
from tables.state.journal.state import JournalPartition

FOREIGN = OpenTransaction(
    producer_id=7, transactional_id="nightly import", offset=5, written_ms=1_700_000_000_000
)
HANGING = OpenTransaction(producer_id=8, transactional_id=None, offset=9, written_ms=0)


class Scene:
    """The partitions that were asked about, and the transactional ids that were taken over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, int]] = []
        self.ended: list[str] = []
        self.open = [FOREIGN, HANGING]
        scene = self

        async def found(_: Any, topic: str, partition: int) -> list[OpenTransaction]:
            scene.asked.append((topic, partition))
            return scene.open

        class Producer:
            def __init__(self, name: str, **_: Any) -> None:
                self.name = name

            async def init_transactions(self) -> None:
                scene.ended.append(self.name)

            async def discard(self) -> None:
                pass

        journal = JournalPartition(destination="shop", options={}, topic="aq.__journal", number=2)
        monkeypatch.setattr(journal_commands, "load", lambda: None)
        monkeypatch.setattr(journal_commands, "journal_of", lambda *_: journal)
        monkeypatch.setattr(journal_commands, "open_transactions", found)
        monkeypatch.setattr(journal_commands, "TransactionalProducer", Producer)

    def does(self, *words: str) -> int:
        parser = argparse.ArgumentParser()
        journal_commands.configure_abort(parser)
        return journal_commands.run_abort(parser.parse_args(words))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_each_is_listed_with_the_command_that_ends_it(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scene.does("shop") == 1
    assert scene.asked == [("aq.__journal", 2)]
    output = capsys.readouterr().out
    where = "--topic aq.__journal --partition 2"
    assert f"journal abort shop {where} --transactional-id 'nightly import'\n" in output
    assert (
        f"kafka-transactions.sh --bootstrap-server SERVER abort {where} --start-offset 9" in output
    )
    assert scene.ended == []


def test_the_command_in_the_error_ends_it_in_whichever_topic_it_is(scene: Scene) -> None:
    error = held_up([FOREIGN], "aq.__schemas", 0)
    error.context["destination"] = "shop"
    words = shlex.split(str(error).rpartition("journal abort ")[2].rstrip("."))
    assert scene.does(*words) == 0
    assert scene.asked == [("aq.__schemas", 0)]
    assert scene.ended == ["nightly import"]


def test_what_is_not_open_there_is_left_alone(scene: Scene) -> None:
    with pytest.raises(StateUnknown):
        scene.does("shop", "--transactional-id", "another")
    assert scene.ended == []


def test_a_topic_without_a_partition_is_refused(scene: Scene) -> None:
    with pytest.raises(UsageError):
        scene.does("shop", "--topic", "aq.__schemas")


def test_where_none_is_open_all_is_well(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.open = []
    assert scene.does("shop") == 0
    assert "no transaction is open in partition 2 of aq.__journal" in capsys.readouterr().out
