"""`python -m app` itself: what it imports, how it fails, how it ends."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import __main__ as program
from app.operator.commands import GROUPS, UNGROUPED, command, ungrouped_command
from app.version import __version__
from connectors.errors import KafkaLost, TransactionOpen

NAMES = [(group, name) for group, known in GROUPS.items() for name in known.commands]


MOVES = {("cursor", "set"), ("cursor", "skip"), ("cursor", "import")}
"""Commands that move a cursor require a reason, of one line."""
PRINT_JSON = {("cursor", "export"), ("snapshot", "plan")}
"""Commands that print what a program reads have no other format."""


def run(*words: str, settings: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("AQUEDUCT_")}
    environment = own | ({"AQUEDUCT_CONFIG": str(settings)} if settings else {})
    return subprocess.run(
        [sys.executable, "-m", "app", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize(("group", "name"), NAMES)
def test_every_command_is_there_and_says_what_it_takes(group: str, name: str) -> None:
    parser = argparse.ArgumentParser()
    command(group, name).configure(parser)
    output = parser.format_help()
    wanted = "--why" if (group, name) in MOVES else "--format"
    assert wanted in output or (group, name) in PRINT_JSON


@pytest.mark.parametrize("name", UNGROUPED)
def test_a_command_in_no_group_is_there_too(name: str) -> None:
    parser = argparse.ArgumentParser()
    ungrouped_command(name).configure(parser)
    assert "--format" in parser.format_help()


def test_help_imports_no_command_and_a_command_no_other() -> None:
    code = (
        "import sys, contextlib\n"
        "from app.__main__ import main\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main(sys.argv[1:])\n"
        "heavy = {'faust', 'mode', 'aiokafka', 'pymysql', 'kazoo', 'pydantic', 'prometheus_client'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    for words in (["--help"], ["schema", "--help"], ["schema", "replay", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
        )
        assert done.stderr == "[]\n", words


def test_settings_that_are_not_usable_are_one_message_and_exit_78(tmp_path: Path) -> None:
    settings = tmp_path / "aqueduct.yaml"
    settings.write_text("prefix: aq\n")
    done = run("schema", "show", "shop", "a.b", settings=settings)
    assert done.returncode == os.EX_CONFIG
    assert done.stderr.startswith("aqueduct: SettingsError: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_destination_that_is_not_in_the_settings_is_named_with_those_that_are(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "aqueduct.yaml"
    settings.write_text(
        "prefix: aq\n"
        "kafka: {bootstrap_servers: 127.0.0.1:1}\n"
        "destinations: {shop: {server_id: 5, source: {host: h, user: u}}}\n"
    )
    for name in ("show", "history", "check", "audit", "rebuild"):
        words = ["a.b"] if name == "show" else []
        done = run("schema", name, "shopp", *words, settings=settings)
        assert done.returncode == 2, name
        assert "the settings have no destination 'shopp', only: shop" in done.stderr


@pytest.mark.parametrize(
    "words",
    [[], ["schema"], ["schema", "nothing"], ["schema", "show"], ["schema", "show", "d", "table"]],
)
def test_wrong_usage_is_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        program.main(words)
    assert end.value.code == 2
    assert "usage: python -m app" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["shop", "shop.t", "shop.u", "--where", "a = 1", "--replace"],
        ["shop", "--where", "a = 1", "shop.t", "shop.u", "--replace"],
        ["--replace", "shop", "shop.t", "--where", "a = 1", "shop.u"],
        ["--where=a = 1", "--replace", "shop", "--", "shop.t", "shop.u"],
    ],
)
def test_options_and_tables_come_in_any_order(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start, given = command("snapshot", "start"), list[argparse.Namespace]()

    def run(options: argparse.Namespace) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(program, "command", lambda *_: start._replace(run=run))
    assert program.main(["snapshot", "start", *words]) == 0
    (options,) = given
    assert (options.destination, options.where, options.replace) == ("shop", "a = 1", True)
    assert options.tables == [("shop", "t"), ("shop", "u")]


def test_arguments_that_may_be_missing_keep_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    diff, given = command("mapping", "diff"), list[argparse.Namespace]()

    def run(options: argparse.Namespace) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(program, "command", lambda *_: diff._replace(run=run))
    for words in (["3"], ["3", "4"], ["3", "--format", "json", "4"]):
        assert program.main(["mapping", "diff", *words]) == 0
    assert [one.new for one in given] == ["newest", "4", "4"]


def test_a_named_error_is_one_message_and_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def configure(self, parser: argparse.ArgumentParser) -> None:
            pass

        def run(self, options: argparse.Namespace) -> int:
            raise KafkaLost(f"no broker answers {options.command}")

    monkeypatch.setattr(program, "command", lambda _group, _name: Broken())
    assert program.main(["schema", "audit"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("aqueduct: KafkaLost: ")
    assert "no broker answers audit" in output


def test_a_command_in_an_error_has_the_destination_that_was_asked_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def configure(self, parser: argparse.ArgumentParser) -> None:
            parser.add_argument("destination")

        def run(self, options: argparse.Namespace) -> int:
            raise TransactionOpen(f"in the way of {options.command}")

    monkeypatch.setattr(program, "command", lambda _group, _name: Broken())
    assert program.main(["cursor", "show", "shop"]) == 1
    assert "python -m app journal abort shop " in capsys.readouterr().err


def test_an_error_is_all_that_a_command_prints_without_a_broker(tmp_path: Path) -> None:
    settings = tmp_path / "aqueduct.yaml"
    settings.write_text(
        "{prefix: aq, kafka: {bootstrap_servers: '127.0.0.1:1'}, "
        "destinations: {shop: {server_id: 7, source: {host: h, user: u, password: p}}}}"
    )
    done = run("cursor", "show", "shop", settings=settings)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line[:21]) == (1, "aqueduct: KafkaLost: ")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    source = tmp_path / "many.jsonl"
    lines = [f'{{"database": "d", "sql": "CREATE TABLE t{n} (a INT)"}}\n' for n in range(2000)]
    source.write_text("".join(lines))
    command = f"{sys.executable} -m app schema replay --input {source} | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"Aqueduct {__version__}\n"
