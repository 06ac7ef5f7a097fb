"""The commands of stored versions, over the in-memory twin of ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from app.__main__ import main
from app.operator import mapping as mapping_commands
from connectors.errors import StateUnknown
from tests.harness.memory_zookeeper import MemoryServer
from tests.unit.app.operator.test_mapping_in_force import journal_has
from tests.unit.app.settings.test_model import GOOD

Command = Callable[..., int]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> MemoryServer:
    server = MemoryServer()
    monkeypatch.setattr(mapping_commands, "opens", lambda _client: server.opens)
    journal_has(monkeypatch, StateUnknown())
    monkeypatch.setenv("USER", "ann")
    monkeypatch.delenv("SUDO_USER", raising=False)
    return server


@pytest.fixture
def mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: MemoryServer) -> Command:
    """A command of the group; a first argument in braces is put into a file."""
    assert server.nodes == {}
    settings = tmp_path / "aqueduct.yaml"
    settings.write_text(f"{GOOD}mapping: {{store: zookeeper}}\nzookeeper: {{hosts: 'zk:2181'}}\n")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(settings))

    def command(name: str, *arguments: str) -> int:
        if arguments and arguments[0].startswith("{"):
            file = tmp_path / "mapping.yaml"
            file.write_text(arguments[0])
            arguments = (str(file), *arguments[1:])
        return main(["mapping", name, *arguments])

    return command


X, Y = "{tables: {a: {topic: x}}}", "{tables: {a: {topic: y}, b: {topic: z}}}"


def test_a_version_is_stored_with_who_and_why_and_can_be_restored(
    mapping: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mapping("set", X, "--why", "first") == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "version 1 is stored; it is the first",
        "table a: added",
    ]
    assert mapping("set", Y, "--why", "second", "--after", "1") == 0
    assert mapping("rollback", "1", "--why", "b was wrong", "--format", "json") == 0
    capsys.readouterr()
    assert mapping("history", "--format", "json") == 0
    found = orjson.loads(capsys.readouterr().out)
    assert [(one["version"], one["by"], one["why"], one["restores"]) for one in found] == [
        (3, "ann", "b was wrong", 1),
        (2, "ann", "second", None),
        (1, "ann", "first", None),
    ]
    assert mapping("diff", "1", "2") == 0
    assert capsys.readouterr().out.splitlines() == ["table a: changed (topic)", "table b: added"]
    assert mapping("diff", X) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_the_newest_version_can_be_stored_again_and_old_ones_removed(
    mapping: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (X, Y):
        assert mapping("set", text, "--why", "w") == 0
    # One that a destination has refused is tried again so.
    assert mapping("rollback", "2", "--why", "the table is dropped") == 0
    capsys.readouterr()
    assert mapping("prune", "--keep", "2") == 0
    assert capsys.readouterr().out == "removed versions: 1\n"
    assert mapping("prune", "--keep", "0") == 0
    assert mapping("prune", "--keep", "1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "removed versions: none"
    assert mapping("get") == 0
    assert capsys.readouterr().out.startswith("# version 3 by ann, ")
    assert mapping("set", X, "--why", "w") == 0
    assert capsys.readouterr().out.startswith("version 4 is stored")


def test_what_get_prints_can_be_set(
    mapping: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping("set", X, "--why", "two\nlines")
    capsys.readouterr()
    assert mapping("get") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# version 1 by ann, ")
    (tmp_path / "again.yaml").write_text(printed)
    assert mapping("diff", str(tmp_path / "again.yaml"), "1") == 0
    assert capsys.readouterr().out == "no difference\n"


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("set", "{tables: {a: {format: avro}}}", "--why", "w"), 1, "avro needs a schema registry"),
        (("set", "{tables: {a: {columns: 1}}}", "--why", "w"), 1, "tables.a.columns"),
        (
            ("set", "{tables: {a: {column_actions: {c: redact}}}}", "--why", "w"),
            1,
            "masked tables need keys",
        ),
        (("set", Y, "--why", "w", "--after", "7"), 1, "version 1 is the newest, not 7"),
        (("set", X, "--why", "w"), 2, "version 1, the newest, is equal"),
        (("rollback", "9", "--why", "w"), 1, "version 9 is not in ZooKeeper"),
    ],
)
def test_what_is_refused_stores_nothing(
    mapping: Command,
    server: MemoryServer,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    error: str,
) -> None:
    assert mapping("set", X, "--why", "first") == 0
    before = dict(server.nodes)
    capsys.readouterr()
    assert mapping(*arguments) == code
    assert error in capsys.readouterr().err
    assert server.nodes == before


@pytest.mark.remedy("MappingConflict")
def test_a_change_is_stored_on_top_of_what_another_author_has_stored_meanwhile(
    mapping: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (X, Y):
        assert mapping("set", text, "--why", "theirs") == 0
    mine = "{tables: {a: {topic: y}, b: {topic: z}, c: {topic: mine}}}"
    capsys.readouterr()
    assert mapping("set", mine, "--why", "mine", "--after", "1") == 1
    assert "MappingConflict" in capsys.readouterr().err
    assert mapping("history") == mapping("diff", "1", "2") == 0
    assert "table b: added" in capsys.readouterr().out
    assert mapping("set", mine, "--why", "mine", "--after", "2") == 0
    assert "version 3 is stored" in capsys.readouterr().out


@pytest.mark.remedy("UsageError")
def test_an_argument_that_would_change_nothing_is_refused_and_help_lists_what_there_is(
    mapping: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mapping("set", X, "--why", "w") == 0
    assert mapping("set", X, "--why", "w") == 2
    assert "UsageError" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        mapping("set", "--help")
    assert end.value.code == 0
    assert "--after" in capsys.readouterr().out
    assert mapping("set", Y, "--why", "w", "--after", "1") == 0


def test_an_emptied_store_continues_after_the_version_that_was_in_force(
    mapping: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mapping("get") == 1
    assert "there is no version yet" in capsys.readouterr().err
    assert mapping("set", X, "--why", "again", "--after", "7") == 0
    assert capsys.readouterr().out.startswith("version 8 is stored")


def test_a_store_needs_zookeeper_and_no_file_and_a_file_has_no_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "aqueduct.yaml"
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(settings))
    for mapping, error in (
        ("{store: zookeeper}", "needs zookeeper.hosts"),
        ("{store: zookeeper, file: x}", "so file is not read"),
        ("{}", "set mapping.store to zookeeper first"),
    ):
        settings.write_text(f"{GOOD}mapping: {mapping}\n")
        assert main(["mapping", "history"]) != 0
        assert error in capsys.readouterr().err
