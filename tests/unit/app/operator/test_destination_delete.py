"""A destination is not deleted while its merge lacks records of it, unless that is confirmed."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest

from app.operator import destination as destination_commands
from app.worker.destination.takeover.published_check import Published
from connectors.errors import MergeUnfinished, NotConfirmed
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.operator_requests import DesiredState

LACKS = "aq.__shard.shop.orders has records that aq.orders lacks"


class Scene:
    """A destination whose records are all merged, or not, and the states that are requested of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_merged = False
        self.requested: list[DesiredState | None] = []
        settings = SimpleNamespace(prefix="aq", destinations={"shop": None})
        journal = JournalPartition(destination="shop", topic="aq.__journal", number=0, options={})

        async def committed_state(_: JournalPartition) -> DestinationState:
            return DestinationState("shop")

        async def find(_: object) -> None:
            """There is a journal."""

        async def check_merged(published: Published, _: DestinationState, partitions: int) -> None:
            assert (published.destination, published.prefix, partitions) == ("shop", "aq", 3)
            if not self.is_merged:
                raise MergeUnfinished(LACKS, topic="aq.__shard.shop.orders")

        async def request_state(_: object, desired: DesiredState | None, **__: Any) -> Any:
            self.requested.append(desired)
            return SimpleNamespace(to_json=dict), None

        monkeypatch.setattr(destination_commands, "load", lambda: settings)
        monkeypatch.setattr("app.operator.journal_access.journal_of", lambda *_: journal)
        monkeypatch.setattr("app.operator.journal_access.committed_state", committed_state)
        monkeypatch.setattr("app.operator.journal_access.UnitJournal.find", find)
        plans = SimpleNamespace(journal=lambda: SimpleNamespace(partitions=3))
        monkeypatch.setattr(destination_commands, "topic_plans", lambda _: plans)
        monkeypatch.setattr(Published, "check_merged", check_merged)
        monkeypatch.setattr(destination_commands, "request_state", request_state)

    def delete(self, *options: str) -> None:
        """Run the command."""
        parser = argparse.ArgumentParser()
        destination_commands.configure_delete(parser)
        assert destination_commands.run_delete(parser.parse_args(["shop", *options])) == 0


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_destination_with_records_that_its_merge_lacks_is_not_deleted(scene: Scene) -> None:
    with pytest.raises(NotConfirmed, match=f"{LACKS}, and never gets them") as found:
        scene.delete("--no-wait")
    assert scene.requested == []
    assert "First pause it" in str(found.value)
    assert "--yes-lose-changes" in str(found.value)


def test_it_is_deleted_once_all_is_merged_or_if_the_loss_is_confirmed(scene: Scene) -> None:
    scene.delete("--no-wait", "--yes-lose-changes")
    assert scene.requested == [DesiredState.DELETE]
    scene.is_merged = True
    scene.delete("--no-wait")
    assert scene.requested == [DesiredState.DELETE] * 2
