"""The sink's command: what is refused before Spark has started."""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spark_sink import __main__ as command
from spark_sink.errors import BadSettings
from spark_sink.jobs.reload_command import requests_of
from spark_sink.settings.model import Log, Settings
from spark_sink.spark import session
from spark_sink.spark.log import configure
from spark_sink.text.quoting import discards_source
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness.memory_warehouse import MemoryWarehouse


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("absent/dump.jsonl", "No such file or directory"),
        ("", "Is a directory"),
        ("sink.yaml/dump.jsonl", "Not a directory"),
        ("d" * 300, "File name too long"),
    ],
)
def test_a_dump_that_cannot_be_written_is_reported_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    file: str,
    reason: str,
) -> None:
    settings = tmp_path / "sink.yaml"
    settings.write_text(f"prefix: aq\nbootstrap_servers: x:1\nwarehouse: {tmp_path}/w\n")

    def started(_: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(session, "start", started)
    monkeypatch.setattr(command, "configure", lambda _: None)
    monkeypatch.setattr(command, "_stop_on_signals", lambda stop: stop)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert command.main(["--config", str(settings), "dump", str(tmp_path / file)]) == 2
    (described,) = capsys.readouterr().err.splitlines()
    assert described.startswith(f"BadSettings: The settings cannot be used: dump {tmp_path / file}")
    assert reason in described


def test_a_reload_takes_no_time_zone_or_one_that_mysql_has() -> None:
    parse = command._parser().parse_args
    assert parse(["reload", "shop.t"]).time_zone is None
    for text in ("+02:00", "Europe/Berlin"):
        assert parse(["reload", "shop.t", "--time-zone", text]).time_zone == text
    with pytest.raises(SystemExit):
        parse(["reload", "shop.t", "--time-zone", "SYSTEM"])


def requests(*words: str) -> list[Request]:
    settings = Settings(prefix="aq", bootstrap_servers="x:1", warehouse="/w", name="other")
    asked = requests_of(command._parser().parse_args(words), settings)
    assert len({one.number for one in asked}) == len(asked)
    return [replace(one, number="1") for one in asked]


def test_a_rebuild_is_a_reload_from_the_beginning_and_maintenance_takes_any_number_of_tables() -> (
    None
):
    words = "shop.t", "shop.u", "shop.t", "--topic", "aq.x", "--topic", "aq.y"
    asked = requests("reload", *words, "--from-beginning")
    assert asked == requests("rebuild", *words)
    topics = ("aq.x", "aq.y")
    assert asked == [
        Request(number="1", database="shop", table=table, from_beginning=True, topics=topics, sink="other")
        for table in ("t", "u")
    ]  # fmt: skip
    parse = command._parser().parse_args
    assert parse(["maintain"]).tables == []
    several = parse(["maintain", "shop.t", "shop.u"]).tables
    assert several == [("shop", "t"), ("shop", "u")]


def test_each_option_of_a_reload_is_in_its_request() -> None:
    plain = Request(number="1", database="shop", table="t", sink="other")
    assert requests("reload", "shop.t", "--timeout", "5") == [plain]
    for option in ("from_beginning", "only_new", "skip_unusable", "unknown_as_null", "discard"):
        (found,) = requests("reload", "shop.t", f"--{option.replace('_', '-')}")
        assert found == replace(plain, **{option: True})  # type: ignore[arg-type]
    assert requests("reload", "shop.t", "--time-zone", "+02:00") == [
        replace(plain, time_zone="+02:00")
    ]


def test_a_table_is_discarded_without_another_option() -> None:
    assert requests("reload", "shop.t", "--discard", "--timeout", "5")[0].discard
    for other in (["--only-new"], ["--topic", "aq.x"], ["--time-zone", "+02:00"]):
        with pytest.raises(BadSettings, match="--discard removes the table"):
            requests("reload", "shop.t", "--discard", *other)


def test_rows_of_one_source_table_are_discarded_from_one_table() -> None:
    for words in (
        ["--source", "shop:shop.a"],
        ["shop.u", "--discard", "--source", "shop:shop.a"],
        ["--discard", "--yes-lose-rows"],
    ):
        with pytest.raises(BadSettings, match="--discard"):
            requests("reload", "shop.t", *words)
    with pytest.raises(SystemExit):
        requests("reload", "shop.t", "--discard", "--source", "shop.a")
    for name in (("shop", "a"), ("x.y", "it's"), ("trade", "a:b c")):
        words = shlex.split(discards_source(("shop", "t"), "crm", name))[3:]
        (request,) = requests(*words, "--yes-lose-rows")
        assert (request.discard, request.lose_rows) == (True, True)
        assert request.of_source == Source("crm", *name)
        kept = MemoryWarehouse()
        Waits(kept.log, lambda: 0.0).ask(request)
        sink = Waits(kept.log, lambda: 0.0)
        sink.refresh()
        assert sink.requests == [request]


def test_a_dump_into_a_pipe_or_a_file_that_is_there_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("kept")
    for file in (Path("/dev/null"), tmp_path / "there", tmp_path / "new"):
        command._refuse_unwritable(file)
    assert (tmp_path / "there").read_text() == "kept"
    assert [file.name for file in tmp_path.iterdir()] == ["there"]


def test_a_table_is_named_with_a_dot_or_as_mysql_quotes_it() -> None:
    parse = command._parser().parse_args
    for text, name in (
        ("shop.t", ("shop", "t")),
        ("shop.a.b", ("shop", "a.b")),
        ("`x.y`.`a``.b`", ("x.y", "a`.b")),
        ("shop.new\nline", ("shop", "new\nline")),
    ):
        assert parse(["show", text]).table == name
    assert parse(["letters", "--table", "`x.y`.`t`"]).table == ("x.y", "t")
    assert parse(["letters"]).table is None
    for text in ("shop", "shop.", ".t"):
        with pytest.raises(SystemExit):
            parse(["reload", text])


@pytest.mark.usefixtures("logging_as_it_was")
def test_the_console_has_no_traceback_even_of_what_py4j_logs_as_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(Log(file=tmp_path / "log"))
    root = logging.getLogger()
    try:
        raise ValueError("answer from Java side is empty")
    except ValueError:
        logging.getLogger("spark_sink").exception("batch failed")
        record = root.makeRecord(
            "root",
            logging.ERROR,
            "site-packages/py4j/java_gateway.py",
            1,
            "sending",
            (),
            sys.exc_info(),
        )
        root.handle(record)
    console, file = capsys.readouterr().err, (tmp_path / "log").read_text()
    assert console.endswith("ERROR batch failed\n")
    assert console.count("\n") == 1
    assert file.count("Traceback") == file.count("ValueError: answer") == 2


@pytest.mark.usefixtures("logging_as_it_was")
def test_the_log_and_what_is_printed_are_lines_whatever_a_table_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(Log(file=tmp_path / "log"))
    logging.getLogger("spark_sink").error("table waits table=%s", "t\nFORGED\x1b\u202e")
    command._print("t\nFORGED")
    described = capsys.readouterr()
    shown = "t\\nFORGED"
    assert described.out == f"{shown}\n"
    for text in (described.err, (tmp_path / "log").read_text()):
        assert text.endswith(f"table waits table={shown}\\x1b\\u202e\n")
        assert text.count("\n") == 1


def test_the_sink_logs_that_it_starts_before_spark_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = tmp_path / "sink.yaml"
    settings.write_text(f"prefix: aq\nbootstrap_servers: x:1\nwarehouse: {tmp_path}/w\n")
    caplog.set_level(logging.INFO)
    seen: list[list[str]] = []

    def start(_: object) -> None:
        seen.append([record.getMessage() for record in caplog.records])

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(session, "close", lambda _: None)
    monkeypatch.setattr(command, "configure", lambda _: None)
    monkeypatch.setattr(command, "_stop_on_signals", lambda stop: stop)
    monkeypatch.setattr(command, "_act", lambda *_: None)
    assert command.main(["--config", str(settings)]) == 0
    ((line,),) = seen
    assert line.startswith("sink starting version=")
    assert line.endswith(f"prefix=aq warehouse={tmp_path}/w")
    assert "Spark started seconds=" in caplog.text
    caplog.clear()
    assert command.main(["--config", str(settings), "status"]) == 0
    assert caplog.text == ""
