"""Every metric of the worker, with its kind and meaning.

Invariant: base units, ``_total`` on counters, labels from bounded sets only: a destination or an
error's class, never a key, a GTID or a position. A gauge is exported only while its subject is here, such as
a destination that is led; a counter belongs to the process and stays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY = CollectorRegistry()

_Of = Literal["process", "leader", "merge", "logical schemas"]
"""The subject of a gauge: a destination that this worker leads, a merge or the logical schemas that it runs, or
the process. A gauge of all destinations that this worker could lead belongs to the process."""
_GAUGES: defaultdict[_Of, list[Gauge]] = defaultdict(list)


def _gauge(name: str, meaning: str, labels: Sequence[str] = (), *, of: _Of) -> Gauge:
    made = Gauge(name, meaning, labels, registry=REGISTRY)
    _GAUGES[of].append(made)
    return made


BUILD = _gauge(
    "aqueduct_build_info",
    "1, labelled with the version.",
    ["version"],
    of="process",
)
UP = _gauge(
    "aqueduct_destination_up",
    "1 while a destination is read and published, else 0.",
    ["destination"],
    of="leader",
)
STATE = _gauge(
    "aqueduct_destination_state",
    "1 for the state that a destination is in on this worker.",
    ["destination", "state"],
    of="process",
)
SWITCHES = Counter(
    "aqueduct_source_switches_total",
    "Runs that began at another server than the one before.",
    ["destination"],
    registry=REGISTRY,
)
HEARTBEAT_FAILURES = _gauge(
    "aqueduct_source_heartbeat_failures",
    "Heartbeats that the present source did not answer, one after the other.",
    ["destination"],
    of="leader",
)
ROWS = Counter(
    "aqueduct_rows_published_total",
    "Row changes committed to Kafka, by kind: c, u, d, t.",
    ["destination", "op"],
    registry=REGISTRY,
)
RECORDS = Counter(
    "aqueduct_records_published_total",
    "Records committed to Kafka, tombstones, DDL and transaction markers included.",
    ["destination"],
    registry=REGISTRY,
)
EVENTS = Counter(
    "aqueduct_binlog_events_total",
    "Binlog events by type, and what was done with them: decoded, filtered (tables that are not captured), "
    "given up (of a table that an operator gave up), passed (they carry no change), "
    "refused (damaged or unsupported, which stops the destination), "
    "skipped (of a transaction that an operator skips).",
    ["destination", "type", "handling"],
    registry=REGISTRY,
)
STATEMENTS_PASSED = Counter(
    "aqueduct_statements_passed_total",
    "Changes written as statements that were passed by, since none of their tables is captured; "
    "one that changed several tables counts for each.",
    ["destination"],
    registry=REGISTRY,
)
BYTES = Counter(
    "aqueduct_record_bytes_published_total",
    "Bytes of keys and values committed to Kafka, before compression.",
    ["destination"],
    registry=REGISTRY,
)
COMMITS = Histogram(
    "aqueduct_kafka_commit_seconds",
    "How long a Kafka transaction took, from its begin to its commit.",
    ["destination"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
LAG = _gauge(
    "aqueduct_source_lag_seconds",
    "From the source's commit of the last published transaction to its commit in Kafka.",
    ["destination"],
    of="leader",
)
UNREAD = _gauge(
    "aqueduct_source_unread_seconds",
    "How long the source has had changes that are not published; 0 where all are.",
    ["destination"],
    of="leader",
)
UNTIL_PURGED = _gauge(
    "aqueduct_source_seconds_until_purged",
    "Until the source purges what is still to be read, at the speed of late; +Inf while we keep up.",
    ["destination"],
    of="leader",
)
UNTIL_PURGED_STOPPED = _gauge(
    "aqueduct_source_seconds_until_purged_if_stopped",
    "The same if nothing were read any more from now on; +Inf where nothing is ever purged.",
    ["destination"],
    of="leader",
)
SEQ = _gauge(
    "aqueduct_seq",
    "The last number given to a record.",
    ["destination"],
    of="leader",
)
EPOCH = _gauge(
    "aqueduct_epoch",
    "The epoch this worker leads a destination in.",
    ["destination"],
    of="leader",
)
MAPPING_VERSION = _gauge(
    "aqueduct_mapping_version",
    "The version of the mapping in force; 0 before the first.",
    ["destination"],
    of="leader",
)
MAPPING_NEWEST = _gauge(
    "aqueduct_mapping_newest_version",
    "The newest version of the mapping in ZooKeeper, in force or not.",
    ["destination"],
    of="leader",
)
LEADER = _gauge(
    "aqueduct_leader",
    "1 while this worker leads a destination, by ZooKeeper; 0 once it does no more.",
    ["destination"],
    of="process",
)
TAKEOVERS = Counter(
    "aqueduct_takeovers_total",
    "Times this worker came to lead a destination, by ZooKeeper.",
    ["destination"],
    registry=REGISTRY,
)
LEADERSHIP_LOST = Counter(
    "aqueduct_leadership_lost_total",
    "Times this worker lost the lead of a destination without having been asked to hand it over.",
    ["destination"],
    registry=REGISTRY,
)
KAFKA_UP = _gauge(
    "aqueduct_kafka_up",
    "1 while a broker answers, asked every few seconds.",
    of="process",
)
COORDINATION = _gauge(
    "aqueduct_coordination_up",
    "1 while this worker has a session with ZooKeeper and its part among the others; NaN without ZooKeeper.",
    of="process",
)
COORDINATION.set(math.nan)
ERRORS = Counter(
    "aqueduct_errors_total",
    "Times a destination's run ended, by the error's class.",
    ["destination", "error"],
    registry=REGISTRY,
)
SCHEMA_CHANGES = Counter(
    "aqueduct_schema_changes_total",
    "Statements that changed tables, by outcome: resolved, unresolved (tables are quarantined), "
    "unknown (of tables that need no history, or are not captured).",
    ["destination", "outcome"],
    registry=REGISTRY,
)
QUARANTINED = _gauge(
    "aqueduct_tables_set_aside",
    "Captured tables that wait in quarantine for an operator.",
    ["destination"],
    of="leader",
)
SNAPSHOT_TABLES = _gauge(
    "aqueduct_snapshot_tables",
    "Tables whose existing rows are to be published, by state: waiting, reading, done, failed.",
    ["destination", "state"],
    of="leader",
)
SNAPSHOT_PREVENTED = _gauge(
    "aqueduct_snapshot_tables_prevented",
    "Tables whose existing rows cannot be read now, and databases whose tables the account may not all see.",
    ["destination"],
    of="leader",
)
SNAPSHOT_ROWS = Counter(
    "aqueduct_snapshot_rows_total",
    "Existing rows published; rows that the stream had changed before are not counted.",
    ["destination", "table"],
    registry=REGISTRY,
)
GIVEN_UP = _gauge(
    "aqueduct_tables_given_up",
    "Captured tables that an operator gave up: their changes are dropped.",
    ["destination"],
    of="leader",
)
PARKED = Counter(
    "aqueduct_events_parked_total",
    "Events of quarantined tables, written to the quarantine topic.",
    ["destination"],
    registry=REGISTRY,
)
DEAD_LETTERS = Counter(
    "aqueduct_dead_letters_total",
    "Rows that cannot be decoded, written among the dead letters.",
    ["destination"],
    registry=REGISTRY,
)
WEAK_TOPICS = _gauge(
    "aqueduct_topics_weak",
    "Topics that may lose records with a broker; /status names them.",
    ["destination"],
    of="leader",
)
OVERSIZE = Counter(
    "aqueduct_oversize_records_total",
    "Records of rows that were too large for their topic, by what was done: claim_check, key_only.",
    ["destination", "handling"],
    registry=REGISTRY,
)
SCHEMA_STORE_LAG = _gauge(
    "aqueduct_schema_store_lag_records",
    "Records of the schema history that the central store is not known to have.",
    ["destination"],
    of="leader",
)
MERGED = Counter(
    "aqueduct_merge_records_total",
    "Records published by a merge, by the destination they are of.",
    ["merge", "destination"],
    registry=REGISTRY,
)
MERGE_LATE = Counter(
    "aqueduct_merge_late_records_total",
    "Records that a merge published after one of a later commit of another destination.",
    ["merge"],
    registry=REGISTRY,
)
MERGE_HELD = _gauge(
    "aqueduct_merge_held_records",
    "Records that a merge has read and not yet published.",
    ["merge"],
    of="merge",
)
MERGE_LAG = _gauge(
    "aqueduct_merge_lag_seconds",
    "The age of the last commit before which a destination is known to be published.",
    ["merge", "destination"],
    of="merge",
)
MERGE_STALLED = _gauge(
    "aqueduct_merge_stalled",
    "1 while a destination lags so much that the setting merge.stalled applies.",
    ["merge", "destination"],
    of="merge",
)
MERGE_TOPICS_WAITING = _gauge(
    "aqueduct_merge_topics_waiting",
    "Topics of a merge that wait, as they cannot be written to or merged; all others are merged.",
    ["merge"],
    of="merge",
)
LOGICAL_TABLES = _gauge(
    "aqueduct_logical_tables",
    "Logical tables of the mapping, by how far their shards agree: equal, converging, conflict or accepted; or "
    "waiting, if the schema is not published now.",
    ["state"],
    of="logical schemas",
)
LOGICAL_TABLES_OLDEST = _gauge(
    "aqueduct_logical_tables_oldest_seconds",
    "The longest time that a logical table has been in the state; 0 if none is.",
    ["state"],
    of="logical schemas",
)
JOURNAL_FOLDED = Counter(
    "aqueduct_journal_records_folded_total",
    "Journal records folded into this worker's tables.",
    registry=REGISTRY,
)


def show_state(destination: str, state: str, *, states: Iterable[str], is_led: bool) -> None:
    """Show a destination's state; if it is not led here, remove its other gauges.

    A fenced destination is also shown as not up, since an operator must end one of its two workers.
    """
    for other in states:
        if other != state:
            STATE.remove(destination, other)
    STATE.labels(destination, state).set(1)
    if not is_led:
        _remove("leader", destination=destination)
    if is_led or state == "FENCED":
        UP.labels(destination).set(state == "RUNNING")


def remove_destination(destination: str) -> None:
    """Remove the gauges of a destination that is no longer in the settings."""
    _remove("leader", destination=destination)
    STATE.remove_by_labels({"destination": destination})


def remove_merge(merge: str) -> None:
    """Remove the gauges of a merge that this worker does not run now."""
    _remove("merge", merge=merge)


def show_logical_tables(by_state: Mapping[str, tuple[int, float]]) -> None:
    """Show, by state, the number of logical tables and their longest time in seconds; remove all if empty."""
    if not by_state:
        _remove("logical schemas")
    for state, (count, seconds) in by_state.items():
        LOGICAL_TABLES.labels(state).set(count)
        LOGICAL_TABLES_OLDEST.labels(state).set(seconds)


def show_candidates(wanted: Collection[str], led: Collection[str]) -> None:
    """Show whether this worker leads each destination that it could lead; remove all other destinations."""
    for name in {*wanted, *led}:
        LEADER.labels(name).set(name in led)
    for labels in [sample.labels for metric in LEADER.collect() for sample in metric.samples]:
        if labels["destination"] not in wanted and labels["destination"] not in led:
            LEADER.remove(labels["destination"])


def _remove(of: _Of, **labels: str) -> None:
    """Remove the gauges with these labels; without labels, remove all."""
    for gauge in _GAUGES[of]:
        if labels:
            gauge.remove_by_labels(labels)
        else:
            gauge.clear()


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)
