"""The reliability page, compared with the faults and mutants of the crash suite."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

import tests.crash.faults  # noqa: F401 - it names the scenarios
from connectors.errors import AqueductError
from tests.architecture.tree import PROJECT
from tests.crash import report
from tests.crash.mutants import MUTANTS
from tests.crash.peers.faults import FAULTS
from tests.crash.scenario import SCENARIOS

_NAME = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")
"""The form of the names of errors and alerts."""
_SERVERS = {"ZooKeeper"}
_NOT_DONE = re.compile(r"^Not done to Debezium, [^`]*(.*)\.$", re.MULTILINE)


def errors(base: type[AqueductError] = AqueductError) -> set[str]:
    """The names of all errors."""
    return {base.__name__}.union(*(errors(one) for one in base.__subclasses__()))


def alerts() -> set[str]:
    return set(re.findall(r"alert: (\w+)", (PROJECT / "deploy/prometheus/alerts.yml").read_text()))


def rows() -> dict[str, tuple[str, str]]:
    """By fault, its description and outcome on the page."""
    return {one["name"]: (one["what"], one["how"]) for one in report.described()["outcomes"]}


def unknown_names(texts: Iterable[str], known: set[str]) -> list[str]:
    """Names of errors or alerts that do not exist."""
    found = {name for text in texts for name in _NAME.findall(text)}
    return sorted(found - known - _SERVERS)


def test_each_fault_has_a_row_and_each_row_is_a_fault() -> None:
    assert sorted(rows()) == sorted(SCENARIOS)


def test_each_row_says_what_its_fault_does() -> None:
    assert {name: what for name, (what, _) in rows().items()} == {
        name: one.what for name, one in SCENARIOS.items()
    }


def test_each_mutant_has_a_row_and_each_row_is_a_mutant() -> None:
    assert sorted(report.described()["mutants"]) == sorted(MUTANTS)


@pytest.mark.parametrize("name", [name for name, one in SCENARIOS.items() if one.error])
def test_the_row_of_a_fault_that_stops_a_destination_has_its_error(name: str) -> None:
    assert SCENARIOS[name].error in _NAME.findall(rows()[name][1])


def test_each_error_that_rows_and_faults_name_is_there() -> None:
    named = [how for _, how in rows().values()] + [str(one.error) for one in SCENARIOS.values()]
    assert unknown_names(named, errors() | alerts()) == []


def test_what_is_not_done_to_a_peer_is_a_fault() -> None:
    (listed,) = _NOT_DONE.findall((PROJECT / "docs/reliability.md").read_text())
    named = re.findall(r"`([^`]+)`", listed)
    assert named
    assert sorted(named) == sorted(name for name in SCENARIOS if name not in FAULTS)


def test_an_error_that_is_not_there_is_found() -> None:
    texts = ["refused: JournalGone", "ZooKeeper ended; JournalDamaged", "a SIGSTOP of MySQL"]
    assert unknown_names(texts, errors()) == ["JournalGone"]
