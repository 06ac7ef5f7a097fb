"""A table that changes again and again, or cannot be compared, does not keep others of its topic from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator.validation import topic_pass
from app.operator.validation.errors import NotComparable, PublishingStalled, TableChanged
from app.operator.validation.table_result import TableResult
from app.operator.validation.topic_pass import TopicPass
from connectors.mysql.ddl.definition import TableName

BUSY, CALM, OTHER = (("shop", one) for one in ("busy", "calm", "other"))


class Passes:
    """A pass whose attempts are these functions of the tables, the last one again and again."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *attempts: Callable[[Sequence[TableName]], None]
    ) -> None:
        self.tables: list[tuple[TableName, ...]] = []
        """Those of each attempt."""
        self.read = 0
        """How often the definitions were read again."""
        waiting = list(attempts)

        async def compare(_self: Any, topic: str, names: Sequence[TableName]) -> list[TableResult]:
            self.tables.append(tuple(names))
            (waiting.pop(0) if len(waiting) > 1 else waiting[0])(names)
            return [TableResult(name=name, topic=topic, rows=1) for name in names]

        async def definitions(*_: Any) -> Any:
            self.read += 1
            return SimpleNamespace()

        monkeypatch.setattr(TopicPass, "_compare", compare)
        monkeypatch.setattr(topic_pass, "definitions_now", definitions)

    async def run(self) -> dict[TableName, str | None]:
        parts: Any = SimpleNamespace(changes=0, facts=None)
        made = TopicPass(
            journal=parts,
            source=parts,
            definitions=parts,
            follower=parts,
            published=parts,
            gate=parts,
            show=cast(Any, None),
            samples=None,
            most_listed=0,
        )
        found = await made.compare("aq.shop.t", [BUSY, CALM, OTHER])
        return {one.name: one.not_compared for one in found}


def changes(names: Sequence[TableName]) -> None:
    if BUSY in names:
        raise TableChanged("a statement changed it", BUSY)


async def test_the_others_are_compared_without_a_table_that_changes_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = Passes(monkeypatch, changes)
    assert await passes.run() == {
        BUSY: "it changed each time it was compared: a statement changed it",
        CALM: None,
        OTHER: None,
    }
    assert passes.tables == [(BUSY, CALM, OTHER)] * 5 + [(CALM, OTHER)]
    assert passes.read == 5


async def test_changes_of_several_tables_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def calm_changes(_: Sequence[TableName]) -> None:
        raise TableChanged("a rule changed it", CALM)

    passes = Passes(monkeypatch, *[changes, calm_changes] * 4, lambda _: None)
    assert set((await passes.run()).values()) == {None}
    assert passes.read == 8


async def test_a_topic_that_cannot_be_folded_is_refused_for_its_other_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(names: Sequence[TableName]) -> None:
        changes(names)
        raise NotComparable("its topic has a record that no worker wrote")

    found = await Passes(monkeypatch, refuses).run()
    assert found.pop(BUSY) == "it changed each time it was compared: a statement changed it"
    assert set(found.values()) == {"its topic has a record that no worker wrote"}


async def test_the_trouble_of_a_worker_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def stalls(_: Sequence[TableName]) -> None:
        raise PublishingStalled("for 60 s")

    with pytest.raises(PublishingStalled):
        await Passes(monkeypatch, stalls).run()
