"""`mapping try`: how the records of a new mapping would differ from the records of the mapping in force.

Both mappings run in the worker's own pipeline over the same events, and the records of each change are compared
by ChangeId; so the trial has no decoding of its own that could differ from a worker's.

Invariant: nothing is written, neither to Kafka nor to the journal, ZooKeeper or the claim store, and nothing is
switched; memory does not grow with what is read. Exit 0: no record would differ; 3: some would; 1: an error, or
tables that could not be compared.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Names
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from app.operator.arguments import add_format, parse_position
from app.operator.journal_access import Journal
from app.operator.mapping import PresentMapping, mapping_in_force
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.operator.terminal import (
    aligned_table,
    print_answer,
    report_unreachable,
    run_operation,
)
from app.operator.trial.published import STATEMENTS, Respect
from app.operator.trial.reading import (
    AtCursor,
    LastMinutes,
    LastTransactions,
    TrialOffset,
    TrialStart,
    own_address,
    recorded_offset,
    refuse_early_end,
    trial_chunks,
    trial_offset,
)
from app.operator.trial.side import Side, known_tables, rules_of_next, tried_again
from app.operator.trial.tally import (
    Counts,
    ShownField,
    ShownRecord,
    ShownValues,
    TableDifferences,
    Tally,
)
from app.settings.mapping import read_mapping
from app.settings.model import Settings, load
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.initial_state import has_column_names
from app.worker.mapping_versions.choice import faults_of
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.stage import StageSpec
from connectors.errors import AqueductError, HistoryTooShort, MappingError, UsageError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, AtTime, Latest
from connectors.mysql.position import Coordinates, Gtids, SourceOffset, parse_gtids
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.stream.chunk import Chunk
from tables.history.history import SchemaHistory
from tables.rules.mapping.mapping import Mapping
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from wire.text import printed, utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a trial."""

    destination: str
    in_force: str
    """The name of the mapping that the new one was compared with."""
    begin: SourceOffset
    end: SourceOffset
    committed_ms: int
    """The commit time of the last transaction read, in milliseconds since 1970; 0: none was read."""
    tables: tuple[TableDifferences, ...]
    totals: Counts
    quarantined: Names[TableName, str]
    """Tables that only the new mapping quarantines, and why."""
    not_compared: Names[TableName, str]
    """Tables that this trial cannot read, though the worker could, and why."""


async def try_mapping(
    settings: Settings,
    mapping: Path,
    report: ReportUnreachable,
    *,
    destination: str | None = None,
    start: TrialStart,
    seconds: float | None = None,
    samples: int = 3,
) -> Trial:
    """Try the mapping in a file or folder.

    ``destination`` None means the only destination of the settings. ``seconds`` is the time for which the
    binlog is followed; None: it is read up to its present end. ``samples`` is the number of samples of each
    kind of difference in a table.

    Raise MappingError if the new mapping is invalid or does not fit the source's tables, HistoryTooShort if
    the schema history begins after the position, UsageError if the new mapping is the settings' own file, and
    the errors of the source, Kafka and ZooKeeper.
    """
    _refuse_the_settings_own(settings, mapping)
    new = settings.mapping.usable(read_mapping(mapping), settings.prefix)
    journal = Journal.of(settings, destination or _only_destination(settings))
    state = await journal.state()
    present = await mapping_in_force(settings, state)
    assert state.cursor is not None
    server = state.cursor.offset.server_uuid
    source = await reachable_source(journal, state, report, server_uuid=server)
    run = _Run(journal, state, source, present, new)
    return await in_its_own_thread(partial(run.trial, start, seconds=seconds, samples=samples))


def _refuse_the_settings_own(settings: Settings, file: Path) -> None:
    own = settings.mapping.file
    if own is not None and file.exists() and own.exists() and file.samefile(own):
        raise UsageError(
            f"{file} is mapping.file of the settings, so it would be compared with itself",
            remedy="Change a copy of it, and try that; workers read the file itself only when they start.",
        )


def _only_destination(settings: Settings) -> str:
    names = sorted(settings.destinations)
    if len(names) != 1:
        raise UsageError(f"give --destination, one of: {', '.join(names)}")
    return names[0]


class _Run:
    """One trial; blocks while it reads."""

    def __init__(
        self,
        journal: Journal,
        state: DestinationState,
        source: ReachableSource,
        present: PresentMapping,
        new: Mapping,
    ) -> None:
        assert state.cursor is not None
        self._plan, self._state, self._cursor = journal.plan, state, state.cursor
        self._source, self._facts = source, source.facts
        self._present = present
        rules = self._plan.rules
        self._old = replace(rules, routes=replace(rules.routes, mapping=present.mapping))
        self._new_routes = replace(rules.routes, mapping=new)
        # With a mapping file, a worker does not try quarantined tables again by itself.
        is_stored = journal.settings.mapping.store == "zookeeper"
        self._again = tried_again(state.quarantine) if is_stored else frozenset[TableName]()
        self._ids = [one.server_id for one in journal.settings.destinations.values()]

    def trial(self, wanted: TrialStart, *, seconds: float | None, samples: int) -> Trial:
        self._check_existing_tables()
        rules = rules_of_next(self._old, self._new_routes, self._state.published)
        address = own_address(
            self._source.address, self._facts, self._ids, follows=seconds is not None
        )
        start = self._start(wanted, address)
        shown = ShownValues(self._old.routes, self._new_routes)
        tally = Tally(shown, samples=samples)
        old, new = self._side(self._old, start), self._side(rules, start, self._again)
        chunks = trial_chunks(address, start, seconds)
        end = self._compare(chunks, start.offset, tally, (old, new), shown)
        if seconds is None:
            refuse_early_end(end, self._facts, self._source.address)
        return Trial(
            destination=self._plan.name,
            in_force=self._present.name,
            begin=start.offset,
            end=end,
            committed_ms=new.committed_ms,
            tables=tally.tables(),
            totals=tally.totals(),
            quarantined={
                name: shown.table_reason(error)
                for name, error in new.unreadable.items()
                if name not in old.unreadable
            },
            not_compared={
                name: shown.table_reason(error)
                for name, error in old.unreadable.items()
                if name not in self._state.quarantine.entries
            },
        )

    def _compare(
        self,
        chunks: Iterable[Chunk],
        reached: SourceOffset,
        tally: Tally,
        sides: tuple[Side, Side],
        shown: ShownValues,
    ) -> SourceOffset:
        """Read to the end and compare; return the position that was reached."""
        old, new = sides
        for chunk in chunks:
            try:
                tally.add(old.published(chunk), new.published(chunk))
            except AqueductError as error:
                raise shown.error(error) from None
            reached = _moved(reached, old)
        return reached

    def _check_existing_tables(self) -> None:
        """Raise MappingError if the source's tables do not fit the new mapping, as a worker does."""
        with connected(self._source.address) as cursor:
            names = InventoryReader(cursor, server_of(self._facts)).names()
        if faults := faults_of(self._new_routes, names):
            raise MappingError.listed(faults)

    def _start(self, wanted: TrialStart, address: SourceAddress) -> TrialOffset:
        """Return where to begin; the last transactions begin no earlier than the schema history."""
        start = trial_offset(wanted, self._cursor, self._facts, address)
        history = self._history()
        if history is None or not isinstance(wanted, LastTransactions | LastMinutes):
            return start
        try:
            history.at(start.offset)
        except HistoryTooShort:
            # After a failover, the beginning of the history may be a position of another server.
            return recorded_offset(history.checkpoints[0].position.offset, self._facts, address)
        return start

    def _side(
        self, rules: PublishingRules, start: TrialOffset, again: frozenset[TableName] = frozenset()
    ) -> Side:
        state, facts, quarantine = self._state, self._facts, self._state.quarantine
        history = self._history()
        if history is not None:
            history.serve(server_of(facts))
            history.rollback(start.offset)
        cursor = Cursor(
            destination=self._plan.name,
            installation=self._cursor.installation,
            epoch=self._cursor.epoch,
            seq=0,
            versions=0,
            offset=start.offset,
        )
        spec = StageSpec(
            rules=rules,
            server_uuid=facts.server_uuid,
            charsets=facts.charsets,
            mariadb=facts.is_mariadb,
            epoch=cursor.epoch,
            versions=state.versions,
            server=server_of(facts),
            has_column_names=has_column_names(facts),
            has_gtids=facts.has_gtids,
            known=known_tables(rules.routes, history, quarantine, start.offset, again=again),
        )
        return Side(spec, history, cursor)

    def _history(self) -> SchemaHistory | None:
        """Return a copy of the schema history, which may be changed; None if none is kept."""
        count = self._cursor.history
        return None if count is None else self._state.history_fold.build(count)


def _moved(offset: SourceOffset, side: Side) -> SourceOffset:
    """Return the position after what a side has read."""
    gtids: Gtids | None = offset.gtid_set
    if gtids is not None and side.gtids:
        gtids = gtids.copy()
        for source, first, last in side.gtids:
            gtids.add_interval(source, first, last)
    return replace(offset, coordinates=side.position, gtid_set=gtids)


DIFFERENT = 3
_CURSOR = "cursor"
_DEFAULT_LAST = 1000
_LAST = re.compile(r"(\d+)(m?)")
_MOST_LAST = 1_000_000
_MOST_SECONDS = 86_400


def configure_try(parser: argparse.ArgumentParser) -> None:
    """Take the mapping, the destination, and what is read."""
    parser.epilog = (
        "Nothing is written or switched. Exit code 0: no record would be different; 3: some would; 1: an "
        "error, also if a table could not be compared."
    )
    parser.add_argument(
        "mapping", type=Path, metavar="FILE", help="YAML, or a folder of the four JSON documents"
    )
    parser.add_argument(
        "--destination", metavar="DEST", help="default: the only one of the settings"
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from",
        metavar="POSITION",
        type=_start_of_text,
        help=f"begin here: `{_CURSOR}`, which is the destination's own position, file:pos, or a time",
    )
    start.add_argument(
        "--gtid", metavar="SET", type=_gtids_of_text, help="begin after these transactions"
    )
    start.add_argument(
        "--last",
        metavar="N",
        type=_last_of_text,
        help="begin with the last N transactions, or as 30m with those of the last 30 minutes; "
        f"default: {_DEFAULT_LAST}, and with --seconds at the end of the binlog",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"follow the binlog for S seconds, at most {_MOST_SECONDS}; default: read to its present end",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=3,
        metavar="N",
        help="samples of each kind of difference in a table (default: %(default)s)",
    )
    add_format(parser)
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )


def run_try(options: argparse.Namespace) -> int:
    """Run the trial and print its result."""
    # No comparison with NaN is true, so NaN is refused too.
    if options.seconds is not None and not 0 < options.seconds <= _MOST_SECONDS:
        raise UsageError(f"--seconds must be above 0 and at most {_MOST_SECONDS}, a day")
    found = run_operation(
        try_mapping(
            load(),
            options.mapping,
            report_unreachable,
            destination=options.destination,
            start=_start(options),
            seconds=options.seconds,
            samples=max(0, options.samples),
        )
    )
    print_answer(options.format, _value(found), _lines(found))
    for name, why in found.not_compared.items():
        table = printed(".".join(name))
        sys.stderr.write(f"{table} could not be compared: {printed(why)}\n")
    if found.not_compared:
        return 1
    return DIFFERENT if found.totals.differ else 0


def _start(options: argparse.Namespace) -> TrialStart:
    chosen: TrialStart | None = getattr(options, "from") or options.gtid or options.last
    if chosen is not None:
        return chosen
    return LastTransactions(_DEFAULT_LAST) if options.seconds is None else Latest()


def _start_of_text(text: str) -> TrialStart:
    if text.strip() == _CURSOR:
        return AtCursor()
    match parse_position(text).value:
        case Coordinates() as coordinates:
            return AtCoordinates(coordinates)
        case int() as ts_ms:
            return AtTime(ts_ms)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not `{_CURSOR}`, file:pos or a time; give GTIDs by --gtid"
    )


def _gtids_of_text(text: str) -> TrialStart:
    try:
        return AfterGtids(parse_gtids(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _last_of_text(text: str) -> TrialStart:
    found = _LAST.fullmatch(text.strip())
    if found is None or not 0 < int(found[1]) <= _MOST_LAST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number of transactions up to {_MOST_LAST} nor minutes such as 30m"
        )
    number = int(found[1])
    return LastMinutes(number) if found[2] else LastTransactions(number)


_HEAD = ("OLD", "NEW", "EQUAL", *(respect.value.upper() for respect in Respect), "TABLE")


def _lines(found: Trial) -> list[str]:
    """Return the result as lines; the last one has the totals."""
    until = f", committed up to {utc(found.committed_ms)}" if found.committed_ms else ""
    lines = [
        f"{found.destination}: compared with {found.in_force}",
        f"read from {found.begin.coordinates} to {found.end.coordinates}{until}",
    ]
    if found.tables:
        lines += ["", *aligned_table(_HEAD, [_table_row(one) for one in found.tables])]
    for name, why in found.quarantined.items():
        lines += ["", f"{'.'.join(name)} would be quarantined: {why}"]
    for name, why in found.not_compared.items():
        lines += ["", f"{'.'.join(name)} could not be compared: {why}"]
    for table in found.tables:
        lines += _sample_lines(table)
    return [*lines, "", _total_line(found.totals)]


def _value(found: Trial) -> dict[str, Any]:
    return {
        "destination": found.destination,
        "in_force": found.in_force,
        "from": _position_value(found.begin.coordinates, found.begin.gtid_set),
        "to": _position_value(found.end.coordinates, found.end.gtid_set),
        "committed": utc(found.committed_ms) if found.committed_ms else None,
        "totals": _counts_value(found.totals),
        "tables": [_table_value(one) for one in found.tables],
        "quarantined": {".".join(name): why for name, why in found.quarantined.items()},
        "not_compared": {".".join(name): why for name, why in found.not_compared.items()},
    }


def _table_name(table: TableName) -> str:
    return "(statements)" if table == STATEMENTS else ".".join(table)


def _numbers(counts: Counts) -> list[int]:
    return [
        counts.old,
        counts.new,
        counts.equal,
        *(counts.by_respect[respect] for respect in Respect),
    ]


def _table_row(one: TableDifferences) -> list[str]:
    return [*map(str, _numbers(one.counts)), _table_name(one.table)]


def _total_line(counts: Counts) -> str:
    names = ("old", "new", "equal", *(respect.value for respect in Respect))
    pairs = zip(names, _numbers(counts), strict=True)
    return "trial: " + " ".join(f"{name}={number}" for name, number in pairs)


def _sample_lines(table: TableDifferences) -> Iterator[str]:
    for respect in Respect:
        samples = table.samples.get(respect, ())
        if samples:
            yield ""
            count = table.counts.by_respect[respect]
            yield f"{_table_name(table.table)}, {respect.value}: {len(samples)} of {count}"
        for sample in samples:
            yield f"  {sample.change_id}" + (f"  {sample.reason}" if sample.reason else "")
            if sample.old is not None:
                yield f"    old  {_record_text(sample.old)}"
            if sample.new is not None:
                yield f"    new  {_record_text(sample.new)}"
            yield from (f"    {_field_text(field)}" for field in sample.fields)


def _record_text(one: ShownRecord) -> str:
    return f"{one.op}  {one.topic} [{one.partition}]  {one.key or 'no key'}"


def _field_text(one: ShownField) -> str:
    return f"{one.name}: {one.old}" + (f" -> {one.new}" if one.new != one.old else "")


def _counts_value(counts: Counts) -> dict[str, int]:
    return {
        "old": counts.old,
        "new": counts.new,
        "equal": counts.equal,
        **{respect.value: counts.by_respect[respect] for respect in Respect},
        "refused_by_both": counts.refused_by_both,
    }


def _table_value(one: TableDifferences) -> dict[str, Any]:
    return {
        "table": _table_name(one.table),
        **_counts_value(one.counts),
        "samples": {
            respect.value: [
                {**asdict(sample), "reason": sample.reason or None} for sample in samples
            ]
            for respect, samples in one.samples.items()
        },
    }


def _position_value(coordinates: object, gtids: object) -> dict[str, Any]:
    return {"position": str(coordinates), "gtid_set": None if gtids is None else str(gtids)}
