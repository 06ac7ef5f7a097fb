"""Random transactions and statements on some twenty tables, each at any moment.

Invariant: each written value is new, so an older image of a row is rarely equal to a newer one. What the server
refuses is counted, and changes nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pymysql

from tests.hostile import quoted

KEYED = "(id int PRIMARY KEY, v int, note varchar(40) CHARACTER SET utf8mb4)"
FREE = {
    **dict.fromkeys(
        ("orders", "Orders", "it's", "a b", "x.y", "quo`te", "ß-ü", "b\\s", "100%"), KEYED
    ),
    "pairs": (
        "(a int, b varchar(20) CHARACTER SET latin1, v int, note varchar(40), PRIMARY KEY (a, b))"
    ),
    "words": "(k varchar(30) CHARACTER SET utf8mb4 PRIMARY KEY, v int, at datetime)",
    "uniq": "(u int NOT NULL UNIQUE, v int, price decimal(12,2))",
    "parts": "(a bigint, b char(5), c int, d int NOT NULL DEFAULT 0, v int, PRIMARY KEY (c, a, b))",
    "plain": "(v int, note varchar(40))",
    "lines": "(a int, v decimal(10,2), note text)",
    "ring": KEYED,
    "circle": KEYED,
}
"""Tables that are renamed, dropped and created too, by what they are created with."""
MASKED = "m_masked"
SHARDS = "m_items"
"""The logical table of several real ones, whose names end in a number."""
MAPPED = {
    "m_topic": KEYED,
    MASKED: "(id int PRIMARY KEY, v int, note varchar(40), card varchar(40), mail varchar(40))",
    "m_emptied": KEYED,
    "m_kept": KEYED,
    "m_plain": "(v int, note varchar(40))",
    **dict.fromkeys((f"{SHARDS}_{number}" for number in (1, 2, 3)), KEYED),
}
"""Tables with rules in the mapping. They are dropped, and renamed to and from other names, but never swapped
with one another."""
SCHEMA = (
    "CREATE DATABASE shop",
    "CREATE DATABASE stage",
    *(f"CREATE TABLE shop.{quoted(name)} {made}" for name, made in (FREE | MAPPED).items()),
)
FIRST_ROWS = 60
AGED = ("orders", "it's", "pairs", "plain")
"""Tables that are renamed for good at times, before another one gets the name."""
KINDS = {
    "truncate": 3, "add": 3, "drop": 2, "rename_column": 1, "modify": 4, "key": 1, "swap": 2, "age": 1,
    "again": 2, "arrive": 1, "mapped_again": 3, "mapped_away": 3, "mapped_load": 3,
}  # fmt: skip
STRICT = "'STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'"
ADDED = (
    "int",
    "int NOT NULL",
    "int DEFAULT 7",
    "varchar(20) DEFAULT 'new'",
    "decimal(8,2) NOT NULL DEFAULT 1.5",
    "int DEFAULT -1 FIRST",
)
NUMBERS = ("int", "bigint", "smallint", "decimal(12,2)", "decimal(10,0)", "double", "int NOT NULL")
TEXTS = ("varchar(40)", "varchar(12)", "char(10)", "text", "varchar(30) NOT NULL")
WORDS = ("Zoë", "it's", "b\\c", "12", "apples", 'say "x"')
_OF_NUMBERS = ("int", "bigint", "smallint", "decimal", "double")
_LOST = (0, 2003, 2006, 2013)
"""Errors of a connection."""


class Column(NamedTuple):
    """A column as the server has it now."""

    name: str
    type: str
    is_nullable: bool
    in_key: bool

    @property
    def kind(self) -> str:
        """The type without its length."""
        return re.split(r"[( ]", self.type)[0]


def tables_of(cursor: Any) -> list[str]:
    """The tables that exist now."""
    cursor.execute("SHOW TABLES FROM shop")
    return [name for (name,) in cursor.fetchall()]


def columns_of(cursor: Any, name: str) -> list[Column]:
    """A table's columns now."""
    cursor.execute(f"SHOW COLUMNS FROM shop.{quoted(name)}")
    return [Column(row[0], row[1], row[2] == "YES", row[3] == "PRI") for row in cursor.fetchall()]


def is_mapped(name: str) -> bool:
    """Whether a rule of the mapping may be about a table of that name."""
    return name in MAPPED or re.fullmatch(rf"{SHARDS}_\d", name) is not None


class Writer:
    """Changes rows and tables in sessions that it is given."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """``note`` logs a statement."""
        self._note = note
        self.done: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        """By MySQL's number of the error."""
        self._numbers = itertools.count(1)

    def fill(self, cursor: Any, chance: random.Random) -> None:
        """Insert the rows that exist before the worker begins."""
        for name in tables_of(cursor):
            for _ in range(FIRST_ROWS):
                with self._tried(cursor, "first rows"):
                    self._insert(cursor, chance, name)
            cursor.execute("COMMIT")

    def last_rows(self, cursor: Any, chance: random.Random) -> None:
        """Insert a row into about half of the tables; the others are as the last statement has left them."""
        for name in tables_of(cursor):
            if chance.random() < 0.5:
                continue
            before = self.done["last rows"]
            while self.done["last rows"] == before:
                with self._tried(cursor, "last rows"):
                    self._insert(cursor, chance, name, "REPLACE")
                    cursor.execute("COMMIT")

    def rows(self, cursor: Any, chance: random.Random, stop: threading.Event) -> None:
        """Commit transactions of some changes, or roll them back."""
        while not stop.wait(chance.uniform(0.02, 0.15)):
            with self._tried(cursor, "transactions"):
                for _ in range(chance.choice((1, 1, 1, 2, 5))):
                    self._change(cursor, chance, chance.choice(tables_of(cursor)))
                cursor.execute("COMMIT" if chance.random() < 0.95 else "ROLLBACK")

    def statements(self, cursor: Any, chance: random.Random, stop: threading.Event) -> None:
        """Run statements on tables, some as a server runs them that is not strict."""
        while not stop.wait(chance.uniform(3, 10)):
            kind = chance.choices([*KINDS], [*KINDS.values()])[0]
            mode = STRICT if chance.random() < 0.7 else "''"
            cursor.execute(f"SET SESSION sql_mode = {mode}")
            for sql in getattr(self, f"_{kind}")(cursor, chance):
                self._note(f"    {sql[:150]};" + ("" if mode == STRICT else "  -- sql_mode=''"))
                with self._tried(cursor, kind):
                    cursor.execute(sql)

    @contextlib.contextmanager
    def _tried(self, cursor: Any, what: str) -> Iterator[None]:
        try:
            yield
            self.done[what] += 1
        except pymysql.MySQLError as error:
            if error.args[0] in _LOST:
                raise
            self.refused[error.args[0]] += 1
            cursor.execute("ROLLBACK")

    def _change(self, cursor: Any, chance: random.Random, name: str) -> None:
        """One change of a row, which may be one that exists."""
        kind = chance.choices(("insert", "update", "delete", "move", "again"), (7, 8, 4, 2, 2))[0]
        table = f"shop.{quoted(name)}"
        columns = columns_of(cursor, name)
        keys = [one for one in columns if one.in_key] or columns[:1]
        cursor.execute(
            f"SELECT {', '.join(quoted(one.name) for one in keys)} FROM {table} ORDER BY RAND() LIMIT 1"
        )
        found = cursor.fetchone()
        if found is None or kind == "insert":
            self._insert(cursor, chance, name)
            return
        pairs = zip(keys, found, strict=True)
        where = " AND ".join(
            f"{quoted(one.name)} <=> {cursor.connection.literal(value)}" for one, value in pairs
        )
        if kind in ("delete", "again"):
            cursor.execute(f"DELETE FROM {table} WHERE {where} LIMIT 1")
            if kind == "again":
                self._insert(cursor, chance, name)
            return
        rest = [one for one in columns if one not in keys] or keys
        changed = keys if kind == "move" else chance.sample(rest, chance.randint(1, len(rest)))
        values = ", ".join(
            f"{quoted(one.name)} = {self._value(cursor, chance, one)}" for one in changed
        )
        cursor.execute(f"UPDATE {table} SET {values} WHERE {where} LIMIT 1")

    def _insert(
        self, cursor: Any, chance: random.Random, name: str, verb: str = "INSERT IGNORE"
    ) -> None:
        columns = columns_of(cursor, name)
        rows = ", ".join(
            f"({', '.join(self._value(cursor, chance, one) for one in columns)})"
            for _ in range(chance.choice((1, 1, 3)))
        )
        names = ", ".join(quoted(one.name) for one in columns)
        cursor.execute(f"{verb} INTO shop.{quoted(name)} ({names}) VALUES {rows}")

    def _value(self, cursor: Any, chance: random.Random, column: Column) -> str:
        """A literal; few for columns of a key, so that they come again."""
        text: str = cursor.connection.literal(self._plain_value(chance, column))
        return text

    def _plain_value(self, chance: random.Random, column: Column) -> Any:
        number = next(self._numbers)
        if column.in_key:
            small = chance.randrange(80)
            return small if column.kind in _OF_NUMBERS else chance.choice("aAbBëë9") + str(small)
        if column.is_nullable and chance.random() < 0.1:
            return None
        if column.kind == "smallint":
            return number % 30_000
        if column.kind in ("int", "bigint"):
            return number
        if column.kind in _OF_NUMBERS:
            return number % 100_000 + chance.choice((0.0, 0.25, 0.5, 0.75))
        if column.kind == "datetime":
            return f"2026-11-28 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        length = re.search(r"\((\d+)\)", column.type)
        text = str(number) if chance.random() < 0.4 else f"{chance.choice(WORDS)} {number}"
        return text[: int(length[1])] if length else text

    def _truncate(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        yield f"TRUNCATE TABLE shop.{quoted(chance.choice(tables_of(cursor)))}"

    def _add(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        name = chance.choice(tables_of(cursor))
        column = "int" if is_mapped(name) else chance.choice(ADDED)
        first = " FIRST" if column.endswith(" FIRST") else ""
        column = column.removesuffix(" FIRST")
        number = next(self._numbers)
        yield f"ALTER TABLE shop.{quoted(name)} ADD COLUMN c{number} {column}{first}"

    def _of_added(self, cursor: Any, chance: random.Random, clause: str) -> Iterator[str]:
        """A clause for a column that was added."""
        names = tables_of(cursor)
        for name in chance.sample(names, len(names)):
            added = [one.name for one in columns_of(cursor, name) if re.match(r"c\d", one.name)]
            if added:
                yield f"ALTER TABLE shop.{quoted(name)} {clause.format(chance.choice(added))}"
                return

    def _drop(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        yield from self._of_added(cursor, chance, "DROP COLUMN {}")

    def _rename_column(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        yield from self._of_added(cursor, chance, f"RENAME COLUMN {{}} TO c{next(self._numbers)}")

    def _modify(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        """Another type for a column; now and then a text becomes a number, or the reverse."""
        name = chance.choice([one for one in tables_of(cursor) if not is_mapped(one)])
        columns = [one for one in columns_of(cursor, name) if not one.in_key and one.name != "at"]
        if columns:
            column = chance.choice(columns)
            of = NUMBERS if column.kind in _OF_NUMBERS else TEXTS
            types = of if chance.random() < 0.7 else (*NUMBERS, *TEXTS)
            yield f"ALTER TABLE shop.{quoted(name)} MODIFY {quoted(column.name)} {chance.choice(types)}"

    def _key(self, _cursor: Any, chance: random.Random) -> Iterator[str]:
        key = chance.choice(("a, b, c", "c, a, b", "a, b, c, d", "d, a, b, c"))
        yield f"ALTER TABLE shop.parts DROP PRIMARY KEY, ADD PRIMARY KEY ({key})"

    def _swap(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        names = [quoted(one) for one in tables_of(cursor) if one in FREE]
        one, other = chance.sample(names, 2)
        yield (
            f"RENAME TABLE shop.{one} TO shop.between, shop.{other} TO shop.{one}, "
            f"shop.between TO shop.{other}"
        )

    def _age(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        name = chance.choice(AGED)
        if name in (there := tables_of(cursor)):
            if f"{name}_old" in there:
                yield f"DROP TABLE shop.{quoted(f'{name}_old')}"
            yield f"RENAME TABLE shop.{quoted(name)} TO shop.{quoted(f'{name}_old')}"
        yield f"CREATE TABLE shop.{quoted(name)} {FREE[name]}"

    def _again(self, _cursor: Any, chance: random.Random) -> Iterator[str]:
        name = chance.choice([*FREE])
        yield f"DROP TABLE IF EXISTS shop.{quoted(name)}"
        yield f"CREATE TABLE shop.{quoted(name)} {FREE[name]}"

    def _arrive(self, _cursor: Any, chance: random.Random) -> Iterator[str]:
        """A table that is not captured takes the name of one that is."""
        name = chance.choice(("ring", "circle", "a b"))
        rows = ", ".join(f"({number}, {next(self._numbers)}, 'loaded')" for number in range(30))
        yield f"CREATE TABLE stage.loaded {KEYED}"
        yield f"INSERT INTO stage.loaded VALUES {rows}"
        yield f"DROP TABLE IF EXISTS shop.{quoted(name)}"
        yield f"RENAME TABLE stage.loaded TO shop.{quoted(name)}"

    def _mapped_again(self, _cursor: Any, chance: random.Random) -> Iterator[str]:
        """A table with a rule is dropped, and perhaps created."""
        name = chance.choice([*MAPPED])
        yield f"DROP TABLE IF EXISTS shop.{name}"
        if chance.random() < 0.7:
            yield f"CREATE TABLE shop.{name} {MAPPED[name]}"

    def _mapped_away(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        """A table with a rule gets a name that has none, or that of a shard; perhaps another takes its own."""
        name = chance.choice([*MAPPED])
        to = f"{SHARDS}_8" if name.startswith(SHARDS) and chance.random() < 0.5 else f"{name}_old"
        if name in (there := tables_of(cursor)):
            if to in there:
                yield f"DROP TABLE shop.{to}"
            yield f"RENAME TABLE shop.{name} TO shop.{to}"
        if chance.random() < 0.7:
            yield f"CREATE TABLE IF NOT EXISTS shop.{name} {MAPPED[name]}"

    def _mapped_load(self, cursor: Any, chance: random.Random) -> Iterator[str]:
        """A table that was loaded under another name takes the name of one with a rule, in one statement."""
        name = chance.choice([*MAPPED])
        loaded, old = f"shop.{name}_load", f"shop.{name}_old"
        columns = "(v, note)" if name == "m_plain" else "(id, v, note)"
        rows = ", ".join(
            f"({next(self._numbers)}, 'loaded')"
            if name == "m_plain"
            else f"({key}, {next(self._numbers)}, 'loaded')"
            for key in range(20)
        )
        yield f"CREATE TABLE {loaded} {MAPPED[name]}"
        yield f"INSERT INTO {loaded} {columns} VALUES {rows}"
        yield f"DROP TABLE IF EXISTS {old}"
        if name in tables_of(cursor):
            yield f"RENAME TABLE shop.{name} TO {old}, {loaded} TO shop.{name}"
        else:
            yield f"RENAME TABLE {loaded} TO shop.{name}"
