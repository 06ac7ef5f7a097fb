"""ALTERs at random in which columns take names from each other: what decides which column a key is of.

Invariant: few names and many actions, so that most statements give a column's name to another one.
"""

from __future__ import annotations

from random import Random

from tests.integration.ddl.truth import Seen, SeenColumn, SeenTable

_NAMES = ("a", "b", "c", "d", "A", "id", "Id")
_TYPES = (
    "int NOT NULL",
    "int NOT NULL",
    "int",
    "varchar(10) NOT NULL",
    "varchar(20) NOT NULL",
    "bigint NOT NULL",
)


class Moves:
    """An endless row of them, about one table."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._made = 0

    def next(self, there: Seen) -> str:
        """A new statement, for a server with these tables."""
        table = there.tables.get(("d1", "t"))
        if table is None:
            return self._create()
        self._made += 1
        if len(table.columns) < 3 or not table.primary_key or self._made % 6 == 0:
            return "DROP TABLE t"
        return f"ALTER TABLE t {', '.join(self._actions(table))}"

    def _create(self) -> str:
        names = self._random.sample(("a", "b", "c", "d", "id"), 4)
        columns = ", ".join(
            f"{name} {self._random.choice(_TYPES[:2] + _TYPES[3:])}" for name in names
        )
        keys = [
            f"PRIMARY KEY ({', '.join(self._random.sample(names, self._random.randint(1, 2)))})"
        ]
        for number in range(self._random.randint(0, 3)):
            parts = self._random.sample(names, self._random.randint(1, 2))
            keys.append(
                f"{self._random.choice(('UNIQUE', 'UNIQUE', 'KEY'))} k{number} ({', '.join(parts)})"
            )
        return f"CREATE TABLE t ({columns}, {', '.join(keys)})"

    def _actions(self, table: SeenTable) -> list[str]:
        columns = list(table.columns)
        self._random.shuffle(columns)
        free = [self._random.choice(_NAMES) for _ in range(2)]
        found: list[str] = []
        for column in columns[: self._random.randint(1, 3)]:
            kind = self._random.choice(("change", "change", "change", "drop", "rename", "modify"))
            own = f"{column.type}{'' if column.nullable else ' NOT NULL'}"
            to = self._random.choice([*free, *(one.name for one in columns), "fresh"])
            if kind == "change":
                found.append(f"CHANGE `{column.name}` `{to}` {own}{self._place(columns, free)}")
            elif kind == "rename":
                found.append(f"RENAME COLUMN `{column.name}` TO `{to}`")
            elif kind == "drop":
                found.append(f"DROP `{column.name}`")
            else:
                found.append(f"MODIFY `{column.name}` {own}{self._place(columns, free)}")
            if self._random.random() < 0.6:
                name = self._random.choice((column.name, column.name, *free))
                kept = own if self._random.random() < 0.7 else self._random.choice(_TYPES)
                found.append(f"ADD `{name}` {kept}{self._place(columns, free)}")
        self._random.shuffle(found)
        return found

    def _place(self, columns: list[SeenColumn], free: list[str]) -> str:
        chance = self._random.random()
        if chance < 0.4:
            return " FIRST"
        if chance < 0.6:
            names = [one.name for one in columns]
            return f" AFTER `{self._random.choice([*names, *free])}`"
        return ""
