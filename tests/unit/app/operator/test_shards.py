"""The commands of shards: what they print, what they send, and how they exit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.__main__ import main
from app.operator import shards as shards_commands
from connectors.errors import NotApplied
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import Decided, Verb
from tables.history.logical_schemas.published import PublishedSchema, next_published
from tests.unit.app.settings.test_model import GOOD
from tests.unit.tables.history.logical_schemas.made import NAME, Shards

Command = Callable[..., int]
ID = "id int not null"


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the group, over one logical table whose shards differ."""
    settings = tmp_path / "aqueduct.yaml"
    settings.write_text(f"{GOOD}mapping: {{store: zookeeper}}\nzookeeper: {{hosts: 'zk:2181'}}\n")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(settings))
    made = Shards("a1", "b1", "b2", columns=f"{ID}; x int; y int")
    made.decide(Verb.EXCLUDE, "b2")
    made.dropped["b2"] = 7
    made.alter("a1", f"{ID}; x varchar(9); y int; z int")
    found = next_published(made.schema, None, 1_795_234_567_123)
    assert found is not None

    async def all_of(_: object) -> dict[TableName, PublishedSchema]:
        return {NAME: found}

    monkeypatch.setattr(shards_commands, "published_tables", all_of)
    monkeypatch.setattr(shards_commands, "published_tables", all_of)
    return lambda name, *words: main(["shards", name, *words])


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The decisions that are sent, each applied by a worker at once; refused if the reason is ``no``."""
    found: list[dict[str, Any]] = []

    async def resolve(_: object, table: object, verb: Verb, **more: Any) -> tuple[Decided, float]:
        found.append({"table": table, "verb": verb, "name": more["name"], "value": more["value"]})
        if more["why"] == "silence":
            raise NotApplied(f"not within {more['wait']:g} s", table="trade.orders")
        decided = Decided(
            table=NAME, subject=("reopen", ""), id="d", refused="so" if more["why"] == "no" else "",
            state="accepted", in_force=None, worker="w", ts_ms=1,
        )  # fmt: skip
        return decided, 0.5

    monkeypatch.setattr(shards_commands, "resolve", resolve)
    return found


def test_all_tables_are_listed(shards: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert shards("show") == 0
    assert capsys.readouterr().out == (
        """TABLE         STATE     SINCE                     SHARDS  DIFFERENCES
trade.orders  conflict  2026-11-21T04:16:07.123Z  3       modify x to varchar(9) utf8mb4; add z int
"""
    )


def test_one_table_is_shown_with_what_each_shard_lacks(
    shards: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shards("show", "trade.orders") == 0
    assert capsys.readouterr().out == (
        """trade.orders  conflict since 2026-11-21T04:16:07.123Z  version 1

column  type              null      charset
id      int               not null
x       (no common type)  null
y       int               null
z       int               null
key  (id)

differences
  modify x to varchar(9) utf8mb4  (conflict)
    done  a:shop.orders_1
    lacking  b:shop.orders_1
  add z int  (in progress)
    done  a:shop.orders_1
    lacking  b:shop.orders_1

shard            version  lacks
a:shop.orders_1  2        nothing
b:shop.orders_1  1        modify x to varchar(9) utf8mb4; add z int
b:shop.orders_2  1        dropped 1970-01-01T00:00:00.007Z

decisions
  exclude b:shop.orders_2  by ann, 1970-01-01T00:00:04.000Z: a test
"""
    )


@pytest.mark.parametrize("form", [["--json"], ["--format", "json"]])
def test_the_record_is_shown_as_json(
    shards: Command, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    assert shards("show", "trade.orders", *form) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["state"], found["version"], len(found["shards"])) == ("conflict", 1, 3)


def test_an_unknown_table_is_named(shards: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert shards("show", "trade.other") == 2
    assert "trade.other is no logical table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "verb", "name", "value"),
    [
        (["--exclude", "shop.orders_1"], Verb.EXCLUDE, "shop.orders_1", ""),
        (["--include", "a:shop.orders_1"], Verb.INCLUDE, "a:shop.orders_1", ""),
        (["--accept"], Verb.ACCEPT, "", ""),
        (["--take-type", "x=enum('a=b')"], Verb.TAKE_TYPE, "x", "enum('a=b')"),
        (["--reopen"], Verb.REOPEN, "", ""),
    ],
)
def test_a_decision_is_sent_and_its_outcome_printed(
    shards: Command,
    sent: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    verb: Verb,
    name: str,
    value: str,
) -> None:
    assert shards("resolve", "trade.orders", *words, "--why", "a test") == 0
    assert sent == [{"table": NAME, "verb": verb, "name": name, "value": value}]
    assert capsys.readouterr().out == "trade.orders: accepted; done by worker w after 0.5 s\n"


def test_a_refused_or_unconfirmed_decision_is_no_success(
    shards: Command, sent: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shards("resolve", "trade.orders", "--accept", "--why", "no") == 1
    assert "refused by worker w: so" in capsys.readouterr().out
    words = ["--accept", "--why", "silence", "--timeout", "3"]
    assert shards("resolve", "trade.orders", *words) == 1
    assert (
        "NotApplied: No worker has applied the request: not within 3 s" in capsys.readouterr().err
    )
    assert len(sent) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--accept"],
        ["--why", "x"],
        ["--accept", "--reopen", "--why", "x"],
        ["--accept", "--no-wait", "--why", "x"],
        ["--take-type", "x", "--why", "x"],
    ],
)
def test_other_words_are_refused_and_nothing_is_sent(
    shards: Command, sent: list[dict[str, Any]], words: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        shards("resolve", "trade.orders", *words)
    assert (ended.value.code, sent) == (2, [])
