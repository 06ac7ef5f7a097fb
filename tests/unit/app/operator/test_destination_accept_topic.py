"""Topics that were made again: which are accepted, by which id, and what that loses."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import orjson
import pytest

from app.operator import destination as destination_commands
from app.operator.destination import plan_acceptance
from connectors.errors import TopicGone, UsageError
from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.known_topics import KnownTopic, note_of
from tables.state.quarantine import Entry, Outcome
from tables.state.quarantine import note_of as quarantine_note
from tests.unit.tables.made import ORDERS, at

JOURNAL = JournalPartition(destination="shop", topic="aq.__journal", number=0, options={})
ROWS, PARKED, VERSIONS = "aq.shop.orders", "aq.__quarantine.shop", "aq.__schemas"
WAITING = Entry(
    destination="shop", name=ORDERS, since=at(200), why="odd", outcome=Outcome.WAITING, offset=7
)


class Scene:
    """A journal with the ids of topics and a quarantined table, and what is written to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids = dict.fromkeys((ROWS, PARKED, VERSIONS), "1")
        self.written: list[Note] = []
        state = DestinationState("shop")
        known = [KnownTopic(destination="shop", topic=name, id="1", ts_ms=1) for name in self.ids]
        for offset, note in enumerate([*map(note_of, known), quarantine_note(WAITING)]):
            state.apply(StoredRecord(*note, offset))

        async def committed_state(_: JournalPartition) -> DestinationState:
            return state

        async def write_notes(_: JournalPartition, notes: Iterable[Note]) -> None:
            self.written += notes

        async def ids(_: object, names: Collection[str]) -> dict[str, str]:
            return {name: one for name, one in self.ids.items() if name in names}

        monkeypatch.setattr(destination_commands, "committed_state", committed_state)
        monkeypatch.setattr(destination_commands, "write_notes", write_notes)
        monkeypatch.setattr("app.operator.destination.Topics.ids", ids)

    async def accept(self, *names: str) -> tuple[str, dict[str, dict[str, Any]]]:
        """Accept topics, or all; return what it loses, and the records by key."""
        planned = await plan_acceptance(JOURNAL, names)
        assert planned is not None
        await planned.write(by="anna", why="restored")
        return planned.effect, {key.decode(): orjson.loads(one) for key, one in self.written}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_a_topic_is_accepted_by_the_id_that_it_has_now(scene: Scene) -> None:
    scene.ids[ROWS] = "2"
    effect, written = await scene.accept()
    assert effect.startswith(f"what {ROWS} held before is never published again")
    ((key, value),) = written.items()
    assert key == "topic/shop/aq.shop.orders"
    assert (value["id"], value["by"], value["why"]) == ("2", "anna", "restored")
    assert value["lacks_versions"] is False


async def test_the_topic_of_versions_lacks_them_until_they_are_published_again(
    scene: Scene,
) -> None:
    scene.ids[VERSIONS] = "2"
    _, written = await scene.accept(VERSIONS)
    assert written[f"topic/shop/{VERSIONS}"]["lacks_versions"] is True


async def test_events_that_waited_are_named_and_later_ones_are_read_from_the_beginning(
    scene: Scene,
) -> None:
    scene.ids[PARKED] = "2"
    effect, written = await scene.accept(PARKED)
    assert "waiting events of shop.orders are lost" in effect
    assert written["quarantine/shop/shop/orders"]["offset"] == 0


async def test_what_was_not_made_again_or_is_gone_or_unknown_is_not_accepted(scene: Scene) -> None:
    assert await plan_acceptance(JOURNAL, []) is None
    assert await plan_acceptance(JOURNAL, [ROWS]) is None
    with pytest.raises(UsageError, match=r"shop has not written to aq\.other"):
        await plan_acceptance(JOURNAL, ["aq.other"])
    del scene.ids[ROWS]
    with pytest.raises(TopicGone, match="create it first"):
        await plan_acceptance(JOURNAL, [ROWS])
    assert await plan_acceptance(JOURNAL, []) is None
