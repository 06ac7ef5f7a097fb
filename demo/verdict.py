"""The verdict over all witnesses: the load's count, the binlog, Kafka, MySQL and the warehouse.

All of them must agree; any disagreement is a fault that the verdict names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from demo import checks
from demo.checks import Batches, Record
from demo.topics import Contents, Layout
from demo.truth import Truth

CAUSED_RESTARTS = 1
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """One line of the demo's table; lags are seconds from commit to warehouse."""

    name: str
    mysql_rows: int
    warehouse_rows: int
    changes: int
    lost: int
    duplicated: int
    different: int
    lag_p50: float | None
    lag_p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The result of comparing one table's rows; `shown` are the first differences in full."""

    mysql_rows: int
    warehouse_rows: int
    different: int
    shown: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The reports of all witnesses."""

    layout: Layout
    counted: Counter[str]
    truth: Truth
    contents: Contents
    compared: Mapping[str, Compared]
    applied: Batches
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome; `faults` are sentences, none if there are no faults."""

    tables: Sequence[TableReport]
    restarts: int
    faults: Sequence[str]

    @property
    def good(self) -> bool:
        """Whether nothing was lost, duplicated or different."""
        return not self.faults

    def last_line(self) -> str:
        """The demo's last line."""
        changes, lost, duplicated, different = (
            sum(getattr(table, column) for table in self.tables)
            for column in ("changes", "lost", "duplicated", "different")
        )
        return (
            f"demo: changes={changes} lost={lost} duplicated={duplicated} different={different}"
            f" restarts={self.restarts}"
        )


def judge(evidence: Evidence, *, at_least: int) -> Verdict:
    """Judge the evidence; fewer than `at_least` published changes are a fault too."""
    tables = [_table(evidence, name) for name in sorted(evidence.compared)]
    changes = sum(table.changes for table in tables)
    faults = [fault for name in sorted(evidence.compared) for fault in _faults(evidence, name)]
    faults += _faults_of_the_whole(evidence)
    if changes < at_least:
        faults.append(f"only {changes} changes were published, not {at_least} or more")
    if evidence.restarts != CAUSED_RESTARTS:
        faults.append(
            f"the worker was started again {evidence.restarts} times;"
            f" the demo killed it {CAUSED_RESTARTS} time"
        )
    return Verdict(tables=tables, restarts=evidence.restarts, faults=faults)


def _table(evidence: Evidence, name: str) -> TableReport:
    records, expected = _records(evidence, name), evidence.truth.change_ids.get(name, set())
    compared = evidence.compared[name]
    lags = checks.lags(records, evidence.applied)
    return TableReport(
        name=name,
        mysql_rows=compared.mysql_rows,
        warehouse_rows=compared.warehouse_rows,
        changes=checks.published(expected, records),
        lost=len(checks.lost(expected, records)),
        duplicated=sum(checks.duplicated(records).values()),
        different=compared.different,
        lag_p50=checks.percentile(lags, 50),
        lag_p99=checks.percentile(lags, 99),
    )


def _faults(evidence: Evidence, name: str) -> list[str]:
    records, truth = _records(evidence, name), evidence.truth
    expected = truth.change_ids.get(name, set())
    faults = [
        *_some(
            "changes are in the binlog and not in Kafka", sorted(checks.lost(expected, records))
        ),
        *_some("changes are more than once in Kafka", sorted(checks.duplicated(records))),
        *_some("records have no change in the binlog", checks.invented(expected, records)),
    ]
    unapplied = [record for record in records if not checks.applied_at(record, evidence.applied)]
    if unapplied:
        faults.append(f"{len(unapplied)} records are in no batch of the sink's ledger")
    faults += _some("records are not in their table's topic", _misplaced(evidence, name))
    if compared := evidence.compared[name].different:
        faults.append(f"{compared} rows differ: " + "\n    ".join(evidence.compared[name].shown))
    if truth.changes[name] != evidence.counted[name]:
        faults.append(
            f"the load changed {evidence.counted[name]} rows, the binlog has {truth.changes[name]}"
        )
    return [f"{name}: {fault}" for fault in faults]


def _faults_of_the_whole(evidence: Evidence) -> list[str]:
    contents = evidence.contents
    everything = contents.records
    return [
        *_some("places where seq is not 1, 2, 3 …", checks.seq_faults(everything)),
        *_some("places where the epoch goes back", checks.epoch_regressions(everything)),
        *_some("records hold rows that were rolled back", contents.marked),
    ]


def _records(evidence: Evidence, name: str) -> list[Record]:
    return evidence.contents.rows.get(name, [])


def _misplaced(evidence: Evidence, name: str) -> list[Record]:
    """Records of a table that are in another topic than its route's."""
    topic = evidence.layout.topic_of(name)
    return [record for record in _records(evidence, name) if record.topic != topic]


def _some(what: str, found: Sequence[object]) -> list[str]:
    if not found:
        return []
    return [f"{len(found)} {what}: " + "; ".join(map(str, found[:_SHOWN]))]
