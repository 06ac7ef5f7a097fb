"""The command `mapping try`: what it asks for, what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from app.__main__ import main
from app.operator.trial import trial
from app.operator.trial.published import Respect
from app.operator.trial.reading import AtCursor, LastMinutes, LastTransactions
from app.operator.trial.tally import Counts, Sample, ShownField, ShownRecord, TableDifferences
from app.operator.trial.trial import Trial
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, AtTime, Latest
from connectors.mysql.position import Coordinates, SourceOffset
from tests.unit.app.settings.test_model import GOOD

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_ALL = dict.fromkeys(Respect, 0)
EQUAL = Counts(old=2, new=2, equal=2, by_respect=_ALL)
MOVED = Counts(old=2, new=2, equal=1, by_respect=_ALL | {Respect.TOPIC: 1}, refused_by_both=4)
SAMPLE = Sample(
    change_id=f"{UUID}:5#0",
    old=ShownRecord(topic="aq.old", partition=1, key='{"id":1}', op="u"),
    new=ShownRecord(topic="aq.new", partition=0, key=None, op="u"),
    fields=(
        ShownField(name="price", old="1", new="2"),
        ShownField(name="card", old="(masked)", new="(masked)"),
    ),
)


def result(counts: Counts, **more: Any) -> Trial:
    offset = SourceOffset(server_uuid=UUID, coordinates=Coordinates("b.000001", 4))
    table = TableDifferences(
        table=("shop", "a\nb"),
        counts=counts,
        samples={Respect.TOPIC: (SAMPLE,)} if counts.differ else {},
    )
    whole: dict[str, Any] = {
        "destination": "shop", "in_force": "version 3", "begin": offset, "end": offset,
        "committed_ms": 1_795_000_000_000, "tables": (table,), "totals": counts,
        "quarantined": {}, "not_compared": {},
    }  # fmt: skip
    return Trial(**whole | more)


def test_the_file_of_the_settings_is_not_compared_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text("{tables: {a: {topic: x}}}")
    (tmp_path / "aqueduct.yaml").write_text(f"{GOOD}mapping: {{file: {file}}}\n")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.yaml").symlink_to(file)
    for name in ("mapping.yaml", "link.yaml"):
        assert main(["mapping", "try", name]) == 2
        error = capsys.readouterr().err
        assert f"{name} is mapping.file of the settings" in error
        assert "Change a copy of it" in error


class Asked:
    """A trial that answers at once."""

    def __init__(self) -> None:
        self.wanted: dict[str, Any] = {}
        self.result = result(EQUAL)

    async def __call__(self, _settings: Any, _mapping: Path, _report: Any, **wanted: Any) -> Trial:
        self.wanted = wanted
        return self.result


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    (tmp_path / "aqueduct.yaml").write_text(GOOD)
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    found = Asked()
    monkeypatch.setattr(trial, "try_mapping", found)
    return found


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("", LastTransactions(1000)),
        ("--seconds 5", Latest()),
        ("--from cursor", AtCursor()),
        ("--from b.000002:157", AtCoordinates(Coordinates("b.000002", 157))),
        ("--from 1970-01-01T00:00:01Z --seconds 5", AtTime(1000)),
        (f"--gtid {UUID}:1-5", AfterGtids(GtidSet.parse(f"{UUID}:1-5"))),
        ("--last 20", LastTransactions(20)),
        ("--last 20m", LastMinutes(20)),
    ],
)
def test_a_beginning_is_given_in_one_of_its_forms(asked: Asked, words: str, start: object) -> None:
    assert main(["mapping", "try", "new.yaml", *words.split()]) == 0
    assert asked.wanted["start"] == start
    assert asked.wanted["seconds"] == (5.0 if "--seconds" in words else None)


@pytest.mark.parametrize(
    "words",
    [
        "--last 0", "--last 5h", "--last 2 --from cursor", "--from x", "--seconds 0", "--gtid x",
        f"--from {UUID}:5", "--last 2000000", "--seconds inf", "--seconds nan", "--seconds 1e10",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("asked")
def test_another_beginning_is_bad_usage(words: str) -> None:
    try:
        code: object = main(["mapping", "try", "new.yaml", *words.split()])
    except SystemExit as error:
        code = error.code
    assert code == 2


def test_the_exit_code_says_whether_anything_differs(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mapping", "try", "new.yaml"]) == 0
    asked.result = result(MOVED)
    assert main(["mapping", "try", "new.yaml"]) == 3
    capsys.readouterr()
    asked.result = result(EQUAL, not_compared={("shop", "t"): "no definition"})
    assert main(["mapping", "try", "new.yaml"]) == 1
    error = capsys.readouterr().err
    assert error == "shop.t could not be compared: no definition\n"


def test_a_report_has_the_counts_of_each_table_and_samples_with_what_may_be_shown(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.result = result(MOVED, quarantined={("shop", "t"): "no column x"})
    main(["mapping", "try", "new.yaml"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shop: compared with version 3"
    assert lines[3].split() == [
        "OLD", "NEW", "EQUAL", "VALUE", "TOPIC", "KEY", "PARTITION", "APPEARS", "VANISHES", "REFUSED", "TABLE",
    ]  # fmt: skip
    # A name stays within its line.
    assert lines[4].split() == ["2", "2", "1", "0", "1", "0", "0", "0", "0", "0", r"shop.a\nb"]
    assert lines[6] == "shop.t would be quarantined: no column x"
    assert lines[8:] == [
        r"shop.a\nb, topic: 1 of 1",
        f"  {UUID}:5#0",
        '    old  u  aq.old [1]  {"id":1}',
        "    new  u  aq.new [0]  no key",
        "    price: 1 -> 2",
        "    card: (masked)",
        "",
        "trial: old=2 new=2 equal=1 value=0 topic=1 key=0 partition=0 appears=0 vanishes=0 refused=0",
    ]


def test_json_has_the_same(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    asked.result = result(MOVED)
    for words in (["--json"], ["--format", "json"]):
        assert main(["mapping", "try", "new.yaml", *words]) == 3
        value = orjson.loads(capsys.readouterr().out)
        assert value["totals"]["topic"] == 1
        assert value["totals"]["refused_by_both"] == 4
        (table,) = value["tables"]
        assert table["table"] == "shop.a\nb"
        assert table["samples"]["topic"][0]["fields"][1] == {
            "name": "card", "old": "(masked)", "new": "(masked)",
        }  # fmt: skip
