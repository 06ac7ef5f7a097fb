"""The operating page lists exactly the existing states and metrics, the errors page exactly the errors."""

import re
from types import ModuleType
from typing import Any, cast

from prometheus_client import REGISTRY, CollectorRegistry, Counter

from app import metrics
from app.worker.status import State
from connectors import errors
from spark_sink import errors as sink_errors
from spark_sink.metrics import Metrics
from tests.architecture.tree import PROJECT

SHOWN_IN = ("deploy/prometheus/alerts.yml", "deploy/grafana/aqueduct.json")
NOT_OF_A_RUN = {"SinkError", "TableError", "UnknownTable"}
"""The roots of the tree, and errors that only the command `show` reports."""


def page(name: str = "operating") -> str:
    return (PROJECT / f"docs/{name}.md").read_text()


def test_every_error_of_the_worker_has_an_entry() -> None:
    matches = set(re.findall(r"^\*\*(\w+)\*\*", page("errors"), re.MULTILINE))
    assert matches == names_below(errors, errors.AqueductError)


def test_every_error_of_the_sink_is_on_its_page() -> None:
    text = (PROJECT / "docs/sink/errors.md").read_text()
    names = names_below(sink_errors, sink_errors.SinkError) - NOT_OF_A_RUN
    assert [name for name in sorted(names) if name not in text] == []


def test_every_state_has_a_row() -> None:
    matches = re.findall(r"^\| ([A-Z]+) \|", page(), re.MULTILINE)
    assert matches == [state.value for state in State]


def test_every_metric_has_a_row_with_its_labels() -> None:
    matches = re.findall(r"^\| `(aqueduct_\w+)` \| (\w+) \| ([\w, ]*) ?\|", page(), re.MULTILINE)
    rows = {(name, kind, labels.strip()) for name, kind, labels in matches}
    assert rows == described(metrics.REGISTRY) | described(Metrics().registry)


def test_every_metric_is_in_the_registry_that_is_served() -> None:
    # prometheus_client takes its own for a metric that names none.
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("aqueduct_")]


def test_every_metric_is_in_a_rule_or_a_panel_or_marked_as_not_shown() -> None:
    shown = "".join((PROJECT / path).read_text() for path in SHOWN_IN)
    rows = re.findall(r"^\| `(aqueduct_\w+)` \|.*\|$", page(), re.MULTILINE)
    marked = set(re.findall(r"^\| `(aqueduct_\w+)` .*\*\(not shown\)\* \|$", page(), re.MULTILINE))
    found = {name for name in rows if re.search(rf"\b{name}(_bucket|_sum|_count)?\b", shown)}
    assert set(rows) - found == marked
    assert not marked & found


def test_a_counter_is_known_by_the_name_prometheus_sees() -> None:
    registry = CollectorRegistry()
    Counter("aqueduct_planted", "For this test.", ["table"], registry=registry)
    assert described(registry) == {("aqueduct_planted_total", "counter", "table")}


def names_below(module: ModuleType, root: type[Exception]) -> set[str]:
    """The classes of a module that are errors of a tree; the root too."""
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, root)
    }


def described(registry: CollectorRegistry) -> set[tuple[str, str, str]]:
    """Name as Prometheus shows it, kind and labels of each metric."""
    found = set()
    for collector in list(registry._collector_to_names):
        (family,) = cast(Any, collector).describe()
        total = "_total" if family.type == "counter" else ""
        labels = ", ".join(getattr(collector, "_labelnames", ()))
        found.add((family.name + total, family.type, labels))
    return found
