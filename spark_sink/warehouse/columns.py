"""The values that the rows of a table get in columns that are added or renamed after them.

Invariant: only rows from before a version get the values that the version states for them, separately for each
source table, and in the commit that adds the column; a repeated batch finds this done. All functions are pure,
except for what they ask of `Asked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from spark_sink.errors import ValuesChanged
from spark_sink.source.altered_in_turn import Turn, in_turn
from spark_sink.source.altered_kinds import NEVER, NOTHING, Altered
from spark_sink.source.lineage import (
    Step,
    alterations,
    first_step,
    is_plain,
    last_column,
    names_after,
    placed,
    steps,
)
from spark_sink.source.schemas import Column, Constant, SchemaBook, TableVersion
from spark_sink.text.quoting import argument, literal, quoted, snapshot_starts
from spark_sink.warehouse.identity import source_sql
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.moves import Name, Place
from spark_sink.warehouse.shape import Entry, Followed, Shape, shaped
from spark_sink.warehouse.stays import known_stays, numbered, with_versions
from wire.table_version import MASKED, VersionKey

OMITTED = "the mapping drops it"
"""Why a column is NULL in all rows, if the mapping drops it."""
COVERED = (OMITTED, MASKED)
"""The reasons for which earlier values of a column are not to stay anywhere."""
_ASIDE = "__unrepresentable"
_ALL = 2**31 - 1
"""A number above those of all versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The value that the rows of a source table, up to a version, have in a column from now on.

    `taken_from` is the former name of a renamed column. Without it and without `constant`, the value is NULL.
    """

    column: str
    source: Source
    until: int
    taken_from: str | None = None
    constant: Constant | None = None
    reason: str = ""
    """Why the value is not known, so that it is NULL; empty if it is known."""
    names: tuple[str, ...] = ()
    """The names of a renamed column since then, up to the present one."""
    is_dropped: bool = False
    """Whether the column is gone at the source, so that it is NULL in all images of a table without a key."""
    is_hidden: bool = False
    """Whether the mapping drops the column, so that no later image has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What an ALTER TABLE made of the values of a column, in the rows of versions below `below`.

    `done` is the version that the table's rows have been brought up to; -1 if none of them has the column.
    """

    column: str
    source: Source
    below: int
    how: Altered
    kinds: tuple[str, str]
    """The types before and after it, as the server prints them."""
    done: int

    @property
    def is_stored(self) -> bool:
        """Whether rows of the table may still have the values from before the statement."""
        return 0 <= self.done < self.below

    def text(self) -> str:
        """As an error names it."""
        return f"{self.column} from {self.kinds[0]} to {self.kinds[1]}"


NamesOf = Callable[[str, Name], Sequence[tuple[Name, Place]]]
"""Returns the names that a table has had in a destination, up to the given one, each since a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Questions that only the rows of the table answer."""

    newest: Callable[[Source], int]
    """The greatest `__schema` of the rows of a source table; -1 if there are no rows."""
    is_only: Callable[[Source], bool]
    """Whether no other source table has rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Versions with the present names of their columns, and what follows from them for a table."""

    name: tuple[str, str]
    apart: bool
    versions: list[TableVersion]
    moves: list[Move] = field(default_factory=list)
    conversions: list[Conversion] = field(default_factory=list)
    """The conversions of the values of all versions, oldest first."""
    held: Shape | None
    followed: tuple[Entry, ...]
    """`Shape.followed`, including these versions."""
    is_single: bool = True
    """Whether a single source table has filled the table, so that its columns themselves are renamed."""
    begun: dict[str, str] = field(default_factory=dict)
    """The new names that an interrupted call of `rename_columns` has given to columns, by the earlier names."""
    comments: dict[str, str] = field(default_factory=dict)
    """The comments of the newest known versions, by column; the table's comment is under the empty name."""

    @property
    def base(self) -> Shape | None:
        """The held shape with the present names of its columns."""
        if self.held is None or not self.moves or not self.is_single:
            return self.held
        return _renamed(self.held, self.moves)

    @property
    def wanted(self) -> Shape:
        """The table's shape with room for the versions. Raise TypeConflict and KeyChanged."""
        found = shaped(self.base, self.versions, name=self.name, apart=self.apart)
        return self.described(replace(found, followed=self.followed))

    def described(self, shape: Shape) -> Shape:
        """The shape with the comments of its columns."""
        names = ("", *(name for name, _ in shape.columns))
        found = ((name, self.comments.get(name.lower(), "")) for name in names)
        return replace(shape, comments=tuple((name, text) for name, text in found if text))

    @property
    def extended(self) -> Shape:
        """The held shape with the new columns, but with its own types and key."""
        held = self.base
        assert held is not None
        columns = dict(held.columns)
        for version in self.versions:
            for name, column in version.present:
                columns.setdefault(held.spelling(name) or name, column.reading.type)
        return replace(held, columns=tuple(columns.items()), followed=self.followed)

    @property
    def unknown(self) -> list[Move]:
        """The columns whose value in existing rows is not known."""
        return [move for move in self.moves if move.reason]

    @property
    def renames(self) -> bool:
        """Whether a column has another name from now on."""
        return any(move.taken_from is not None for move in self.moves)

    def free_names(self) -> dict[str, str]:
        """The new names of columns; empty if a name is taken, or if rows must be written for them."""
        held = self.held
        assert held is not None
        names = {
            held.spelling(move.taken_from) or "": move.column
            for move in self.moves
            if move.taken_from is not None
        }
        kinds = dict(held.columns)
        # Texts that Spark has no value for are stored under the names of their columns.
        is_free = all(
            held.spelling(new) is None and kinds[old] not in _TEMPORAL for old, new in names.items()
        )
        return names if self.is_single and is_free else {}

    def writes(self) -> list[Move]:
        """The moves that give rows other values than new columns of NULLs would."""
        assert self.held is not None
        return [
            move
            for move in self.moves
            if move.constant is not None
            or move.taken_from is not None
            or self.held.spelling(move.column) is not None
        ]


def traced(
    book: SchemaBook,
    held: Shape | None,
    versions: Sequence[TableVersion],
    asked: Asked,
    *,
    name: tuple[str, str],
    apart: bool = False,
    names: NamesOf = lambda *_: (),
) -> Traced:
    """Return how the rows of `versions` and those of the table fit together.

    `names` returns the names that the table has had in a destination, see `History.names`.
    """
    apart = apart or (held is not None and held.apart)
    found: dict[VersionKey, TableVersion] = {}
    moves: list[Move] = []
    conversions: list[Conversion] = []
    followed = set(held.followed) if held is not None else set[Entry]()
    for source in sorted({_source(one, name, apart=apart) for one in versions}):
        path = None
        if not apart:
            path = _path(book, held, source, versions, asked, names(source.destination, name))
        path = path or _chain(book, held, source, versions, asked, apart=apart)
        chain, done, until = path.chain, path.done, path.until
        if not chain:
            continue
        for one in placed(chain):
            found[one.key] = one
        followed = {one for one in followed if not path.replaces(one)} | path.followed
        conversions += _conversions(chain, source, done, until)
        if held is not None and done is not None:
            moves += _moves(chain, source, done, until)
    own = [found.get(key, one) for key, one in {one.key: one for one in versions}.items()]
    begun: dict[str, str] = {}
    if held is not None:
        moves, begun = _resumed(held, moves)
        held = held.with_names(begun)
    is_single = held is None or not any(
        move.taken_from is not None or held.spelling(move.column) is not None for move in moves
    )
    if not is_single and len({move.source for move in moves}) == 1:
        is_single = asked.is_only(moves[0].source)
    return Traced(
        name=name,
        apart=apart,
        versions=own,
        moves=moves,
        conversions=conversions,
        held=held,
        followed=tuple(sorted(followed)),
        is_single=is_single,
        begun=begun,
        comments=_first_comments(book, held, versions)
        if apart
        else _comments(book, held, versions, name),
    )


def nulled(found: Traced, *, time_zone: str) -> Traced:
    """The same with NULL in place of each value that is not known.

    In a table without a key, such a column is NULL in all images: each must match the image that removes it.
    """
    moves = [replace(one, reason="") for one in found.moves]
    if any(one.primary_key for one in found.versions):
        versions = [_nulled(one, time_zone) for one in found.versions]
        conversions = [replace(c, how=c.how.nulled(time_zone)) for c in found.conversions]
        return replace(found, versions=versions, moves=moves, conversions=conversions)
    lossy = {
        one.column for one in found.conversions if one.how.unknown != NEVER or one.how.is_zoned
    }
    lossy |= {one.column for one in found.unknown}
    versions = [
        replace(one, placed=tuple(own for own in one.present if own[0] not in lossy))
        for one in found.versions
    ]
    conversions = [
        replace(one, how=NOTHING, done=0, below=_ALL) if one.column in lossy else one
        for one in found.conversions
    ]
    return replace(found, versions=versions, moves=moves, conversions=conversions)


def _nulled(version: TableVersion, time_zone: str) -> TableVersion:
    placed = tuple(
        (name, replace(one, altered=tuple(how.nulled(time_zone) for how in one.altered)))
        if isinstance(one, Column)
        else (name, one)
        for name, one in version.present
    )
    return version if placed == version.present else replace(version, placed=placed)


def _resumed(held: Shape, moves: Iterable[Move]) -> tuple[list[Move], dict[str, str]]:
    """The remaining moves, and the renames already made, where the rest of a change was interrupted."""
    left: list[Move] = []
    begun: dict[str, str] = {}
    for move in moves:
        if move.taken_from is None or held.spelling(move.taken_from) is not None:
            left.append(move)
            continue
        found = next((own for own in map(held.spelling, move.names) if own is not None), None)
        if found is None:
            continue
        lost = next((one for one in held.key if one.lower() == move.taken_from.lower()), None)
        begun[lost or move.taken_from] = found
        if found.lower() != move.column.lower():
            left.append(replace(move, taken_from=found))
    return left, begun


def _comments(
    book: SchemaBook, held: Shape | None, versions: Sequence[TableVersion], name: tuple[str, str]
) -> dict[str, str]:
    """The comments of a table that one source table of each destination fills, by column in lower case."""
    newest = [found[-1] for one in book.named(name) if (found := book.earlier(one, None))]
    if not versions or not newest:
        return _held_comments(held)
    return next((comments for one in newest if (comments := _commented(one))), {})


def _first_comments(
    book: SchemaBook, held: Shape | None, versions: Sequence[TableVersion]
) -> dict[str, str]:
    """The comments of a table that several source tables fill: those that came first."""
    found = _held_comments(held)
    for source in sorted({_key(one) for one in versions}):
        for newest in book.earlier(source, None)[-1:]:
            found = {**_commented(newest), **found}
    return found


def _held_comments(held: Shape | None) -> dict[str, str]:
    return {name.lower(): text for name, text in held.comments} if held is not None else {}


def _commented(version: TableVersion) -> dict[str, str]:
    found = {one.name.lower(): one.comment for one in version.columns if one.comment}
    return {"": version.comment, **found} if version.comment else found


def row_sql(found: Traced, wanted: Shape) -> list[str]:
    """Expressions of the columns of `wanted` over the rows of the held shape."""
    held = found.held
    assert held is not None
    before = {name.lower(): name for name, _ in held.all_columns}
    replaced = {move.column.lower(): move for move in found.moves}
    row = []
    for name, kind in wanted.all_columns:
        if name == _ASIDE:
            continue
        own = name.lower()
        if found.is_single and (move := replaced.get(own)) is not None:
            # Without `taken_from`, the column that had this name is gone, whatever its type was.
            own = (move.taken_from or "").lower()
        value = quoted(before[own]) if own in before else "NULL"
        value = f"CAST({value} AS {kind})"
        for move in found.moves:
            if move.column.lower() == name.lower() and not (found.is_single and move.taken_from):
                if name in wanted.key:
                    continue
                value = f"if({_of(move, held)}, CAST({_moved(move)} AS {kind}), {value})"
            elif (
                move.taken_from is not None
                and move.taken_from.lower() == name.lower()
                and not found.is_single
                and name.lower() not in {one.column.lower() for one in found.moves}
            ):
                value = f"if({_of(move, held)}, NULL, {value})"
        row.append(f"{value} AS {quoted(name)}")
    return [*row, f"{_aside(found, held)} AS {_ASIDE}"]


def concerned_sql(moves: Iterable[Move], held: Shape) -> str:
    """The condition that a row is concerned by any of the moves."""
    return " OR ".join(sorted({f"({_of(move, held)})" for move in moves})) or "false"


def _of(move: Move, held: Shape) -> str:
    standing = " AND NOT __deleted" if held.keyed and move.taken_from is None else ""
    return f"{_row_of(held, move.source)} AND __schema <= {move.until}{standing}"


def _row_of(held: Shape, source: Source) -> str:
    """The condition that a row is of a source table; rows from before a rename count for the present name."""
    return source_sql(held, source)


def _moved(move: Move) -> str:
    if move.taken_from is not None:
        return quoted(move.taken_from)
    if move.constant is None or move.constant.text is None:
        return "NULL"
    return move.constant.reading.sql.format(text=literal(move.constant.text))


def _aside(found: Traced, held: Shape) -> str:
    """The texts that Spark has no value for, under the columns' present names."""
    cases = []
    for source in sorted({move.source for move in found.moves}):
        own = [move for move in found.moves if move.source == source]
        names = {move.taken_from: move.column for move in own if move.taken_from is not None}
        replaced = {move.column for move in own} - names.keys()
        lost = [
            f"struct({literal(move.column)} AS key, "
            f"if({_moved(move)} IS NULL, {literal(move.constant.text)}, NULL) AS value)"
            for move in own
            if move.constant is not None
            and move.constant.text is not None
            and move.constant.reading.temporal
        ]
        temporal = {name for name, kind in held.columns if kind in _TEMPORAL}
        if not lost and not temporal & {*names, *replaced}:
            continue
        whens = " ".join(
            f"WHEN {literal(old)} THEN {literal(new)}" for old, new in sorted(names.items())
        )
        key = f"CASE x.key {whens} ELSE x.key END" if whens else "x.key"
        gone = ", ".join(literal(name) for name in sorted(replaced)) or "''"
        kept = (
            f"transform(filter(coalesce(map_entries({_ASIDE}), array()), x -> x.key NOT IN ({gone})), "
            f"x -> struct({key} AS key, x.value AS value))"
        )
        added = f"filter(array({', '.join(lost)}), x -> x.value IS NOT NULL)" if lost else "array()"
        entries = f"concat({kept}, {added})"
        until = max(move.until for move in own)
        where = f"{_row_of(held, source)} AND __schema <= {until}"
        if lost and held.keyed:
            where += " AND NOT __deleted"
        cases.append(
            f"WHEN {where} THEN if(size({entries}) = 0, NULL, map_from_entries({entries}))"
        )
    # A row is of one source, so one CASE has all. If nested, each of many shards would multiply the expression.
    return f"CASE {' '.join(cases)} ELSE {_ASIDE} END" if cases else _ASIDE


_TEMPORAL = frozenset({"date", "timestamp", "timestamp_ntz"})


def _renamed(held: Shape, moves: Sequence[Move]) -> Shape:
    """The shape with its columns' present names; a column whose name another column has now is gone."""
    names = {move.taken_from.lower(): move.column for move in moves if move.taken_from is not None}
    reused = {move.column.lower() for move in moves if not move.is_dropped}
    columns = tuple(
        (names.get(name.lower(), name), kind)
        for name, kind in held.columns
        if name.lower() in names or name.lower() not in reused or name in held.key
    )
    key = tuple(names.get(name.lower(), name) for name in held.key)
    return replace(held, columns=columns, key=key)


def _source(version: TableVersion, name: tuple[str, str], *, apart: bool) -> Source:
    """The source whose rows a version describes, as the table knows it."""
    key = version.key
    return Source(key.destination, *((key.database, key.table) if apart else name))


def _key(version: TableVersion) -> tuple[str, str, str]:
    """The source table of a version."""
    return version.key.destination, version.key.database, version.key.table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """The steps of a source, and how many of them the table's rows have taken.

    Without a step, columns are distinguished by name alone.
    """

    chain: list[Step]
    done: int | None = None
    """The greatest rank that any of the rows may have; None means that there is no table."""
    until: int = 0
    """The number of steps of the chain that the rows have already taken."""
    followed: set[Entry] = field(default_factory=set)
    """The entries of this source in `Shape.followed` from now on."""

    def replaces(self, entry: Entry) -> bool:
        """Whether the new entries replace an earlier one."""
        return any(one[0] == entry[0] and len(one) == 7 for one in self.followed) or any(
            one[:3] == entry[:3] for one in self.followed
        )


def _path(
    book: SchemaBook,
    held: Shape | None,
    source: Source,
    versions: Sequence[TableVersion],
    asked: Asked,
    names: Sequence[tuple[Name, Place]],
) -> _Path | None:
    """The steps of a table that was renamed, or took the name of another one; None for any other table."""
    own = [one for one in versions if one.key.destination == source.destination]
    known = known_stays(names, held.followed if held is not None else (), source.destination)
    stays = with_versions(known, own)
    if not stays:
        return None
    found = numbered(stays, source.destination, book)
    here = len(stays) - 1
    chain = steps((number if at == here else 0, one) for (at, number), one in found)
    followed: set[Entry] = {one.entry(source.destination) for one in stays}
    if held is None:
        return _Path(chain=chain, followed=followed)
    # Rows from under an earlier name have rank 0. Rows from an earlier time under the present name have the
    # numbers of its versions.
    done = max(one.last for one in known if one.name == known[-1].name)
    reached = next(((at, known[at].last) for at in range(here, -1, -1) if known[at].last), None)
    if reached is None and not here:
        # The table is from before this was recorded.
        done = asked.newest(source)
        reached = 0, done
    until = sum(at <= reached for at, _ in found) if reached is not None else 0
    return _Path(chain=chain, done=done, until=until, followed=followed)


def _chain(
    book: SchemaBook,
    held: Shape | None,
    source: Source,
    versions: Sequence[TableVersion],
    asked: Asked,
    *,
    apart: bool,
) -> _Path:
    """The steps of a source by the numbers of its versions."""
    name = source.database, source.table
    own = [one for one in versions if _source(one, name, apart=apart) == source]
    own = [one for one in own if one.key.destination == source.destination]
    followed: Followed = dict(held.followed_by) if held is not None else {}
    at = source.destination, source.database, source.table
    latest: dict[tuple[str, str, str], int] = {
        key: number
        for key, number in followed.items()
        if key == at or (not apart and key[0] == source.destination)
    }
    for one in own:
        key = _key(one)
        latest[key] = max(one.key.version, latest.get(key, 0))
    if all(_is_plain(book.earlier(key, None)) for key in {*latest, at}):
        return _Path(chain=[])
    done = None
    if held is not None:
        done = followed.get(at)
        if done is None:
            done = asked.newest(source)
            latest[at] = max(done, latest.get(at, 0))
    others = sorted(latest.keys() - {at})
    before = [(0, one) for key in others for one in book.earlier(key, latest[key])]
    after = [(one.key.version, one) for one in book.earlier(at, latest.get(at, 0))]
    if done == 0:
        # All rows have come by a rename: the table that had this name before is another one.
        first = min((one.key.version for one in own if _key(one) == at), default=0)
        after = [(number, one) for number, one in after if number >= first]
    chain = steps([*before, *after])
    return _Path(
        chain=chain,
        done=done,
        until=_brought(chain, done, followed),
        # The last version of each source table.
        followed={
            (*key, number)
            for key, number in {
                _key(step.version): step.version.key.version for step in chain
            }.items()
        },
    )


def _is_plain(found: Sequence[TableVersion]) -> bool:
    """Whether columns are distinguished by their names alone, and no statement has changed their values."""
    if not is_plain(found):
        return False
    chain = steps([(one.key.version, one) for one in found])
    if chain and any(not one.primary_key for one in found):
        there = {*chain[-1].identities}
        if any(not there.issuperset(step.identities) for step in chain):
            return False
    return not any(alterations(chain))


def _brought(chain: Sequence[Step], done: int | None, followed: Followed) -> int:
    """The number of steps, from the first on, that the table's rows have taken."""
    if done is None:
        return 0
    # Rows of the table's earlier names have rank 0, whatever version they have been brought up to.
    until = dict(followed)
    earlier: dict[tuple[str, str, str], list[TableVersion]] = {}
    for step in chain:
        key = _key(step.version)
        if step.rank == 0 and key not in followed:
            own = earlier.setdefault(key, [])
            own.append(step.version)
            # While columns are distinguished by name alone, no entry of `followed` is stored.
            if _is_plain(own):
                until[key] = step.version.key.version
    return max(
        (
            at
            for at, step in enumerate(chain, 1)
            if step.rank <= done
            and (step.rank or step.version.key.version <= until.get(_key(step.version), 0))
        ),
        default=0,
    )


def _conversions(
    chain: Sequence[Step], source: Source, done: int | None, until: int
) -> Iterable[Conversion]:
    names = names_after(chain)
    for at, identity, how, kinds in alterations(chain):
        # A version of a table's earlier name has rank 0: most rows were brought up to it under that name.
        if identity in names and (chain[at].rank or (done is not None and at >= until)):
            # Rows from before the column get its present value.
            added = first_step(chain, identity)
            has_it = added == 0 or added < until
            yield Conversion(
                column=names[identity],
                source=source,
                below=max(chain[at].rank, 1, (done or 0) + 1 if at >= until else 1),
                how=how,
                kinds=kinds,
                done=done if done is not None and has_it else -1,
            )


def converted(found: Traced, held: Shape, wanted: Shape, *, time_zone: str = "") -> dict[str, str]:
    """The altered columns of `wanted`, each as the struct that `in_turn` makes of the rows of `held`.

    The columns of `held` have their present names. The numbers in `lost` are places in `found.conversions`.
    Without a time zone, a value that depends on it is not known.
    """
    before, after = dict(held.columns), dict(wanted.columns)
    turns: dict[str, list[Turn]] = {}
    for number, one in enumerate(found.conversions):
        own = wanted.spelling(one.column)
        if own is None or not one.is_stored or own not in before:
            continue
        of = f"{_row_of(held, one.source)} AND __schema < {one.below}"
        if held.keyed and own not in held.key:
            of += " AND NOT __deleted"
        turn = Turn(
            how=one.how,
            kind=after[own],
            number=number,
            rows=of,
            # If the type changes, all rows are of versions from before the change.
            is_for_all=before[own] != after[own],
            is_known=not one.how.is_zoned or bool(time_zone),
        )
        turns.setdefault(own, []).append(turn)
    columns = {}
    for own, taken in turns.items():
        aside, zone = f"try_element_at({_ASIDE}, {literal(own)})", literal(time_zone or "UTC")
        columns[own] = in_turn(quoted(own), before[own], taken, aside=aside, zone=zone)
    return columns


def values_changed(name: tuple[str, str], which: str, destinations: Iterable[str]) -> ValuesChanged:
    """The error for rows whose values only the source has."""
    return ValuesChanged(
        f"a statement changed values of {'.'.join(name)} that no topic has ({which})",
        advice=snapshot_advice(name, destinations),
    )


def snapshot_advice(name: tuple[str, str], destinations: Iterable[str]) -> str:
    """What to do about rows that only the source has."""
    starts = snapshot_starts((one, name) for one in sorted(set(destinations)))
    return f"Run: {starts}; once it is done: python -m spark_sink reload {argument(name)}"


def _moves(chain: Sequence[Step], source: Source, done: int, until: int) -> list[Move]:
    """What the rows up to `done`, which have taken the first `until` steps, get by the other steps."""
    earlier, later = chain[:until], chain[until:]
    if not earlier:
        return []
    before, now = names_after(earlier), names_after(chain)
    used = {name.lower() for name in before.values()}
    hidden = chain[-1].version.hidden
    found = [
        Move(column=name, source=source, until=done, reason=OMITTED, is_hidden=True)
        for name in before.values()
        if name.lower() in hidden
    ]
    there = {*chain[-1].identities}
    standing = {name.lower() for identity, name in now.items() if identity in there}
    for identity, name in now.items():
        if not chain[-1].version.primary_key and identity not in there:
            # Later images lack the column, and must match the images that they remove.
            is_there = identity in earlier[-1].identities
            if is_there and identity in before and before[identity].lower() not in standing:
                gone = before[identity]
                found.append(Move(column=gone, source=source, until=done, is_dropped=True))
            continue
        old = before.get(identity)
        if old is not None:
            if old.lower() != name.lower():
                columns = (step.column(identity) for step in later)
                names = tuple(column.name for column in columns if column is not None)
                found.append(
                    Move(column=name, source=source, until=done, taken_from=old, names=names)
                )
        elif first_step(chain, identity) >= len(earlier):
            initial = last_column(chain, identity).initial
            reading = last_column(chain, identity).reading
            is_known = initial is not None and not initial.reason
            text = initial.text if initial is not None else None
            constant = Constant(reading, text) if is_known and text is not None else None
            reason = initial.reason if initial is not None else ""
            if constant is not None or reason or name.lower() in used:
                found.append(
                    Move(column=name, source=source, until=done, constant=constant, reason=reason)
                )
    return found
