"""Recorded binlogs of each series give, without any server, the rows that their server confirmed."""

import json
from pathlib import Path

import pytest

from connectors.mysql.charsets import Charsets
from tests.golden.expected import events_of
from tests.golden.load import statements, steps_of

FILES = sorted(Path(__file__).parent.glob("*/*.binlog"))
LARGEST = 100_000


def test_there_is_a_binlog_of_every_series() -> None:
    series = {path.parent.name for path in FILES}
    assert series >= {"5.5", "5.6", "5.7", "8.0", "9.7", "10.11", "11.8"}
    assert all(path.stat().st_size < LARGEST for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_a_recorded_binlog_gives_what_its_server_confirmed(path: Path) -> None:
    expected = json.loads((path.with_suffix(".json")).read_text())
    known = expected["charsets"]
    charsets = Charsets({int(n): name for n, name in known["collations"].items()}, known["widths"])
    steps = steps_of(path, charsets, mariadb="MariaDB" in expected["server"])
    found = events_of(steps, expected["definitions"], charsets)
    assert json.loads(json.dumps(found)) == expected["steps"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_the_sql_beside_a_recorded_binlog_is_what_its_server_ran(path: Path) -> None:
    steps = json.loads(path.with_suffix(".json").read_text())["steps"]
    ran = statements(path.with_suffix(".sql"))
    recorded = [step["statement"] for step in steps if "statement" in step]
    assert recorded == [one for one in ran if one.startswith(("CREATE", "ALTER", "TRUNCATE"))]
    assert {one.split()[0] for one in ran} >= {"INSERT", "UPDATE", "DELETE", "SAVEPOINT"}
