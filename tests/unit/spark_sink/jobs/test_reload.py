"""Which topics a reload reads, for which tables at once, and for how long batches wait for it."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from spark_sink import errors
from spark_sink.batch.apply import Applier
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.errors import (
    LedgerLost,
    OwnRows,
    ReloadRequested,
    RenamedWhileWaiting,
    RenameFailed,
    TableError,
    UnknownSchema,
    ValuesChanged,
    table_error,
)
from spark_sink.jobs import reload, reload_command
from spark_sink.jobs.reload import Reloader
from spark_sink.metrics import Metrics
from spark_sink.source.positions import Offsets
from spark_sink.source.schemas import SchemaBook
from spark_sink.text.quoting import MOVED
from spark_sink.warehouse.milestones import Commit
from spark_sink.warehouse.moves import Event
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Request, Waits, WaitState
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic
from tests.unit.spark_sink.conftest import CountedGate
from tests.unit.spark_sink.history import schema

OLD, NEW, OTHER = "aq.shop.o", "aq.shop.n", "aq.shop.u"
NAME = ("shop", "n")


class Asked(Exception):
    """In place of records."""


class Topics:
    """See kafka.Topics."""

    def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
        raise Asked(sorted(topics))


def asked(
    *versions: tuple[str, int, str | None], held: str = NEW, shape: str = "own", moved: bool = False
) -> list[str]:
    """The topics that are read for table n, which waits with a change in topic `held`; none if all are."""
    kept: Any = MemoryWarehouse()
    waits = Waits(kept.log, lambda: 0.0)
    ddl = Ddl(topics=Topic(), warehouse=kept, waits=waits, on_drop="rename", on_rename="move")
    if moved:
        event = Event(destination="shop", epoch=1, seq=5, ts_ms=0, moves={("shop", "o"): NAME})
        kept.log.add_ddl([event], {})
    values = [
        schema(("id", "int"), table=table, version=number, topic=topic)
        for table, number, topic in versions
    ]
    applier = Applier(
        book=SchemaBook(lambda: values), warehouse=kept, waits=waits, metrics=Metrics(), ddl=ddl
    )
    if shape != "none":
        made = Shape(*NAME, (("id", "int"),), ("id",), apart=shape == "mapped")
        kept.tables.evolve(None, made)
        if shape == "gone":
            applier.milestones.integrity._left[NAME] = Commit(3)
            kept.tables.drop(*NAME)
    waits.begin(NAME, ReloadRequested(), {(held, 0): 7})
    topics: Any = Topics()
    with pytest.raises(Asked) as found:
        Reloader(applier=applier, topics=topics).answer(
            Request(number="1", database=NAME[0], table=NAME[1], from_beginning=True)
        )
    names: list[str] = found.value.args[0]
    return names


def test_only_the_topics_of_a_table_are_read_if_all_its_versions_name_them() -> None:
    others = ("u", 1, OTHER), ("o", 1, OLD)
    assert asked(("n", 1, NEW), ("n", 2, NEW), *others) == [NEW]
    # Rows that are late may be in another one.
    assert asked(("n", 1, NEW), *others, held=OLD) == [NEW, OLD]
    assert asked(("n", 1, NEW), *others, shape="none") == [NEW]
    assert asked(("n", 1, OLD), ("n", 2, NEW), ("u", 1, OTHER)) == [NEW, OLD]


def test_the_topics_of_earlier_names_are_read_too() -> None:
    others = ("u", 1, OTHER), ("o", 1, OLD)
    assert asked(("n", 1, NEW), *others, moved=True) == [NEW, OLD]
    # None of its rows has its present name.
    assert asked(*others, moved=True) == [NEW, OLD]
    assert asked(("n", 1, NEW), ("o", 1, None), moved=True) == []


def test_all_topics_are_read_of_a_table_that_may_have_rows_in_any() -> None:
    assert asked(("n", 1, None), ("u", 1, None)) == [], "versions of an earlier worker"
    assert asked(("n", 1, None), ("n", 2, NEW)) == []
    assert asked(("n", 1, NEW), ("o", 1, OTHER), shape="mapped") == []
    assert asked(("n", 1, NEW), ("o", 1, OTHER), shape="gone") == [], "it may have been mapped"
    assert asked(("o", 1, OTHER)) == []


def test_a_request_of_a_newer_command_is_refused_by_name_and_ends_nothing() -> None:
    kept: Any = MemoryWarehouse()
    waits = Waits(kept.log, lambda: 0.0)
    ddl = Ddl(topics=Topic(), warehouse=kept, waits=waits, on_drop="rename", on_rename="move")
    applier = Applier(
        book=SchemaBook(list), warehouse=kept, waits=waits, metrics=Metrics(), ddl=ddl
    )
    waits.begin(NAME, ReloadRequested(), {(NEW, 0): 7})
    newer = {"version": 2, "number": "9", "database": NAME[0], "table": NAME[1], "gently": True}
    row = {"number": 0, "kind": "request", "database": NAME[0], "table": NAME[1], "at_ms": 5}
    kept.log.wait({**row, "request": json.dumps(newer)})
    assert waits.refresh()
    (request,) = waits.requests
    Reloader(applier=applier, topics=Topics()).answer(request)  # type: ignore[arg-type]
    assert waits.requests == []
    held = waits.tables[NAME]
    assert (held.waits, held.error, held.answered) == (True, "ReloadRefused", "9")
    assert "has asked for gently, which this version does not know" in held.reason
    assert "Update the sink" in held.action


class Tomorrow(TableError):
    """An error of a later version."""


@pytest.mark.parametrize("error", [RenamedWhileWaiting, LedgerLost, RenameFailed])
def test_a_reload_is_refused_that_would_begin_with_rows_that_are_not_the_tables(
    error: type[TableError],
) -> None:
    assert asked_for(error) == ("waiting", error.__name__, "why", "what to do")
    assert asked_for(error, only_new=True)[0] == "reloading"


@pytest.mark.parametrize("error", [UnknownSchema, Tomorrow])
def test_a_reload_begins_with_the_tables_own_rows_after_any_other_error(
    error: type[TableError],
) -> None:
    assert table_error("Tomorrow") is table_error("ReloadRefused") is table_error("") is TableError
    assert asked_for(error)[0] == "reloading"


def test_a_new_error_states_by_itself_that_a_reload_cannot_begin_with_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(errors, "Tomorrow", Tomorrow, raising=False)
    monkeypatch.setattr(Tomorrow, "own_rows", OwnRows.UNDATED)
    assert asked_for(Tomorrow) == ("waiting", "Tomorrow", "why", "what to do")


def asked_for(error: type[TableError], *, only_new: bool = False) -> tuple[str, str, str, str]:
    """The state of a table that waits for an error, once a reload has begun or was refused."""
    kept: Any = MemoryWarehouse()
    waits = Waits(kept.log, lambda: 0.0)
    applier = Applier(book=SchemaBook(list), warehouse=kept, waits=waits, metrics=Metrics())

    class Begun(Reloader):
        def _rebuild(self, *_: object) -> Any:
            return None

        def _groups(self, _: Any) -> Any:
            return []

    waits.begin(NAME, error("why", advice="what to do"), {(NEW, 0): 7})
    topics: Any = Topics()
    Begun(applier=applier, topics=topics).answer(
        Request(number="1", database=NAME[0], table=NAME[1], only_new=only_new)
    )
    held = waits.tables[NAME]
    return held.kind, held.error, held.reason, held.action


MOVED_ROWS, OTHERS = "RenamedWhileWaiting", "UnknownSchema"


@pytest.mark.parametrize(
    ("waits_for", "options", "advice", "repeated"),
    [
        (MOVED_ROWS, {"from_beginning": True}, "{} --unknown-as-null", "{} --unknown-as-null --from-beginning"),
        (MOVED_ROWS, {"only_new": True}, "Run: {}", "Run: {} --only-new"),
        (MOVED_ROWS, {"from_beginning": True}, "{} --only-new.", "{} --only-new."),
        (MOVED_ROWS, {"from_beginning": True}, "{}.y; or {} --discard", "{}.y; or {} --discard"),
        (OTHERS, {"from_beginning": True}, "Run: {}.", "Run: {}."),
        (OTHERS, {"skip_unusable": True}, "Run: {}; or load it", "Run: {} --skip-unusable; or load it"),
        (OTHERS, {"time_zone": "+02:00"}, "Run: {} --only-new", "Run: {} --only-new --time-zone +02:00"),
        (OTHERS, {"unknown_as_null": True}, "{} --unknown-as-null", "{} --unknown-as-null"),
        (OTHERS, {}, "Run: {}", "Run: {}"),
        (
            OTHERS,
            {"skip_unusable": True},
            "{} --topic aq.x --topic aq.y.",
            "{} --topic aq.x --topic aq.y --skip-unusable.",
        ),
        ("", {"skip_unusable": True}, "Write it again", "Write it again"),
    ],
)  # fmt: skip
def test_what_a_refused_reload_advises_keeps_the_options_that_it_had(
    waits_for: str, options: dict[str, Any], advice: str, repeated: str
) -> None:
    request = Request(number="1", database=NAME[0], table=NAME[1], **options)
    held = WaitState(
        kind="waiting", database=NAME[0], table=NAME[1], since_ms=0, at_ms=0, error=waits_for
    )
    command = "python -m spark_sink reload shop.n"
    assert reload_command.repeated(
        advice.replace("{}", command), request, held
    ) == repeated.replace("{}", command)


def test_a_table_that_may_not_begin_with_its_own_rows_is_reloaded_by_what_its_refusals_say() -> (
    None
):
    kept: Any = MemoryWarehouse()
    waits = Waits(kept.log, lambda: 0.0)
    applier = Applier(book=SchemaBook(list), warehouse=kept, waits=waits, metrics=Metrics())
    reloader = Reloader(applier=applier, topics=Topics())  # type: ignore[arg-type]
    waits.begin(NAME, RenamedWhileWaiting("why", advice="what to do"), {(NEW, 0): 7})
    own = "python -m spark_sink reload shop.n"
    reloader._refused(
        Request(number="1", database=NAME[0], table=NAME[1], from_beginning=True),
        ValuesChanged("values", advice=f"Run: {own} --unknown-as-null"),
    )
    advised = f"Run: {own} --unknown-as-null --from-beginning"
    assert waits.tables[NAME].action == advised
    # As an operator may shorten it.
    reloader.answer(Request(number="2", database=NAME[0], table=NAME[1], unknown_as_null=True))
    held = waits.tables[NAME]
    assert (held.error, held.reason) == ("RenamedWhileWaiting", "shop.n")
    assert held.action == advised


def test_reloads_that_end_the_process_are_repeated_alone_and_refused_by_name_at_last() -> None:
    kept: Any = MemoryWarehouse()

    class Ended(BaseException):
        """The process."""

    def process(*, broke_off: bool = True) -> list[list[str]]:
        """Answers the requests as a new process; returns of which tables topics were read together."""
        waits, read = Waits(kept.log, lambda: 0.0), list[list[str]]()
        waits.refresh()
        applier = Applier(book=SchemaBook(list), warehouse=kept, waits=waits, metrics=Metrics())

        class Carried(Reloader):
            def _rebuild(self, held: Any, request: Request, *_: object) -> Any:
                return SimpleNamespace(request=request, held=held)

            def _groups(self, rebuilds: Any) -> Any:
                read.append([one.request.table for one in rebuilds])
                return [rebuilds]

            def _carry_out(self, rebuilds: Any) -> None:
                if any(one.request.table == "large" for one in rebuilds):
                    raise Ended
                for one in rebuilds:
                    waits.loaded(one.held, {}, one.request)

        topics: Any = Topics()
        with suppress(Ended):
            Carried(applier=applier, topics=topics, broke_off=lambda: broke_off).answer(
                *waits.requests
            )
        return read

    waits = Waits(kept.log, lambda: 0.0)
    tables = ("large", "small", "tiny")
    for table in tables:
        waits.begin(("shop", table), ReloadRequested(), {(NEW, 0): 7})
    waits.ask(*(Request(number=one, database="shop", table=one) for one in tables))
    assert process() == [[*tables]]
    # What an operator stops is no fault of a table.
    assert process(broke_off=False) == process(broke_off=False) == [[*tables]]
    assert process() == [[], ["large"]]
    waits.refresh()
    assert {one.number for one in waits.requests} == {*tables}
    assert process() == [[], ["small"], ["tiny"], ["large"]]
    waits.refresh()
    assert [(one.name[1], one.kind) for one in waits.tables.values()] == [
        ("large", "reloading"), ("small", "loaded"), ("tiny", "loaded")
    ]  # fmt: skip
    assert process() == [[], []]
    waits.refresh()
    held = waits.tables["shop", "large"]
    assert (held.waits, held.error, waits.requests) == (True, "ReloadRefused", [])
    assert "the sink has ended 3 times amid the reload of shop.large" in held.reason
    assert "raise driver_memory" in held.action
    assert "reload shop.large" in held.action
    waits.ask(Request(number="again", database="shop", table="large"))
    assert process() == [["large"]]


@pytest.mark.parametrize(("seconds", "times"), [(30.0, 1), (0.0, 10)])
def test_a_request_for_many_tables_waits_for_few_batches_and_lets_others_follow(
    monkeypatch: pytest.MonkeyPatch, seconds: float, times: int
) -> None:
    monkeypatch.setattr(reload, "_SECONDS_FOR_TABLES", seconds)
    kept: Any = MemoryWarehouse()
    waits = Waits(kept.log, lambda: 0.0)
    gate: Any = CountedGate()
    applier = Applier(
        book=SchemaBook(list), warehouse=kept, waits=waits, metrics=Metrics(), gate=gate
    )
    waits.ask(*(Request(number=str(one), database="shop", table=f"t{one}") for one in range(10)))
    waits.refresh()
    Reloader(applier=applier, topics=Topics()).answer(*waits.requests)  # type: ignore[arg-type]
    assert [held.error for held in waits.tables.values()] == ["ReloadRefused"] * 10
    assert (waits.requests, gate.times) == ([], times)


def test_tables_are_read_together_as_long_as_their_records_can_be_kept() -> None:
    def at(topic: str, first: int) -> Any:
        return SimpleNamespace(start={(topic, 0): first, (topic, 1): first})

    class Ends(Topics):
        def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
            return {}, {(topic, number): 100 for topic in topics for number in (0, 1)}

    kept: Any = MemoryWarehouse()
    applier = Applier(
        book=SchemaBook(list),
        warehouse=kept,
        waits=Waits(kept.log, lambda: 0.0),
        metrics=Metrics(),
    )
    reloader = Reloader(applier=applier, topics=Ends(), most=lambda: 400)  # type: ignore[arg-type]
    one, two, same, three = at("a", 0), at("b", 10), at("a", 50), at("c", 0)
    # The same records are kept once.
    assert reloader._groups([one, two, same, three]) == [[one, two, same], [three]]
    assert reloader._groups([three]) == [[three]]
    assert reloader._groups([]) == []


def test_a_table_that_a_statement_has_dropped_has_no_metrics_any_more() -> None:
    kept: Any = MemoryWarehouse()
    waits, metrics = Waits(kept.log, lambda: 0.0), Metrics()
    ddl = Ddl(topics=Topic(), warehouse=kept, waits=waits, on_drop="keep", on_rename="move")
    applier = Applier(book=SchemaBook(list), warehouse=kept, waits=waits, metrics=metrics, ddl=ddl)
    for table in ("n", "u"):
        metrics.table(f"shop.{table}", seconds=1.0, lag=2.0)
    # What an interrupted process has left to be put in place.
    note = {"tables": [[*NAME, False]], "done": [["shop", 1, 5]]}
    kept.notes.write(MOVED, json.dumps(note))
    applier.follow_ddl({})
    lag = partial(metrics.registry.get_sample_value, "aqueduct_sink_table_lag_seconds")
    assert [lag({"table": f"shop.{table}"}) for table in ("n", "u")] == [None, 2.0]
