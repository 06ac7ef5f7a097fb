"""Random statements: most fit the existing tables, some do not, and a server decides.

Invariant: the statements depend only on the seed and on the tables that the server reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from tests.integration.ddl.random_columns import NAMES, Columns
from tests.integration.ddl.random_words import (
    CHARSETS,
    DATABASES,
    KEYS,
    MODES,
    NOISE,
    OPTIONS,
    PARTITIONING,
    TABLES,
)
from tests.integration.ddl.random_writing import scribbled
from tests.integration.ddl.truth import Seen, SeenTable

Name = tuple[str, str]
FEW_TABLES = 5

_NAME_WORDS = frozenset(
    word for name in NAMES for word in re.findall(r"[\w`]+", name.replace("`", "``").lower())
) | {"f", "g", "h", "i"}


class Statements:
    """An endless row of them.

    ``tame`` ones leave out what only the newest MySQL knows, and what others make a mess of: several actions on
    one column in one statement, a rename beside other actions, and temporary tables, which they write as if
    those were not.
    """

    def __init__(self, seed: str, *, tame: bool = False) -> None:
        self._random = Random(seed)
        self._columns = Columns(self._random, tame=tame)
        self._tame = tame
        self._kinds: list[tuple[int, Callable[[Seen], str]]] = [
            (12, self._create),
            (4, self._create_like),
            (2, self._create_select),
            (0 if tame else 3, self._create_temporary),
            (60, self._alter),
            (6, self._rename),
            (6, self._drop),
            (4, self._create_index),
            (2, self._drop_index),
            (3, self._create_database),
            (3, self._alter_database),
            (1, self._drop_database),
            (6, self._noise),
            (3, self._set),
            (3, self._use),
        ]

    def next(self, there: Seen) -> str:
        """A new statement, for a server with these tables."""
        missing = [name for name in DATABASES if name not in there.databases]
        if missing and self._random.random() < 0.3:
            return f"CREATE DATABASE {missing[0]} {self._random.choice(('', *CHARSETS))}".rstrip()
        if len(there.tables) < FEW_TABLES and self._random.random() < 0.5:
            return scribbled(self._create(there), self._random)
        weights = [weight for weight, _ in self._kinds]
        ((_, make),) = self._random.choices(self._kinds, weights)
        return scribbled(make(there), self._random)

    # --- names ---

    def _table(self, there: Seen) -> Name:
        """A table that is there, nine times of ten."""
        if there.tables and self._random.random() < 0.97:
            return self._random.choice(sorted(there.tables))
        return self._other_table()

    def _other_table(self) -> Name:
        name = self._random.choice(TABLES).strip("`").replace("``", "`")
        return self._random.choice(DATABASES), name

    def _written(self, name: Name) -> str:
        """A table's name as a statement has it: with its database, or leaving that to the session."""
        database, table = (self._quoted(part) for part in name)
        return table if self._random.random() < 0.1 else f"{database}.{table}"

    def _quoted(self, name: str) -> str:
        plain = name.isidentifier() and name not in ("select", "key")
        if plain and self._random.random() < 0.5:
            return name
        return f"`{name.replace('`', '``')}`"

    def _known(self, there: Seen, name: Name) -> SeenTable | None:
        return there.tables.get(name)

    def _chance(self, share: float, text: str) -> str:
        return text if self._random.random() < share else ""

    # --- statements ---

    def _create(self, _there: Seen) -> str:
        columns = self._columns.definitions(self._random.randint(1, 7), daring=0.15)
        names = [name for name, _ in columns]
        parts = [f"{self._quoted(name)} {text}" for name, text in columns]
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2))):
            parts.insert(self._random.randint(1, len(parts)), self._key(names))
        many = self._random.choice((0, 0, 1, 2))
        options = self._random.choice((" ", ", ")).join(self._random.sample(OPTIONS, many))
        exists = self._chance(0.1, "IF NOT EXISTS ")
        name = self._written(self._other_table())
        return f"CREATE TABLE {exists}{name} ({', '.join(parts)}) {options}".rstrip()

    def _key(self, names: Sequence[str]) -> str:
        text = self._random.choice([key for key in KEYS if not self._tame or "((" not in key])
        return text.format(self._key_columns(names), self._quoted(self._random.choice(names)))

    def _key_columns(self, names: Sequence[str]) -> str:
        chosen = self._random.sample(names, self._random.randint(1, min(2, len(names))))
        tails = [self._random.choice(("", "", "", "", "(2)", " DESC")) for _ in chosen]
        return ", ".join(
            f"{self._quoted(name)}{tail}" for name, tail in zip(chosen, tails, strict=True)
        )

    def _create_like(self, there: Seen) -> str:
        name, like = self._written(self._other_table()), self._written(self._table(there))
        return f"CREATE TABLE {name} " + self._random.choice((f"LIKE {like}", f"(LIKE {like})"))

    def _create_select(self, there: Seen) -> str:
        name, source = self._table(there), self._written(self._other_table())
        table = self._known(there, name)
        picked = "*"
        if table and self._random.random() < 0.6:
            names = [column.name for column in table.columns if column.type != "geometry"]
            picked = ", ".join(self._quoted(one) for one in names[:3]) or "1 AS one"
        return f"CREATE TABLE {source} AS SELECT {picked} FROM {self._written(name)} LIMIT 0"

    def _create_temporary(self, there: Seen) -> str:
        name = self._written(self._table(there))
        return self._random.choice(
            (
                f"CREATE TEMPORARY TABLE {name} (a INT, tmp INT)",
                f"DROP TEMPORARY TABLE {name}",
                f"DROP TEMPORARY TABLE {name}",
                f"DROP TEMPORARY TABLE IF EXISTS {name}",
            )
        )

    def _alter(self, there: Seen) -> str:
        name = self._table(there)
        table = self._known(there, name)
        names = [column.name for column in table.columns] if table else ["a"]
        count = self._random.choice((1, 1, 1, 1, 2, 2, 3))
        actions = [self._action(names) for _ in range(count)]
        if self._tame:
            actions = self._apart(actions)
        last = self._chance(0.05, f" {self._random.choice(PARTITIONING)}")
        return f"ALTER TABLE {self._written(name)} {', '.join(actions)}{last}"

    def _apart(self, actions: list[str]) -> list[str]:
        """Clauses without conflicts: each column once, and no rename of the table with anything else."""
        kept = actions[:1]
        for action in actions[1:]:
            result = _names_in(" ".join(kept))
            if not any(one.startswith("RENAME") for one in (kept[0], action)) and not (
                result & _names_in(action)
            ):
                kept.append(action)
        return kept

    def _action(self, names: list[str]) -> str:
        return self._random.choice(
            (
                *([self._add] * 6),
                *([self._modify] * 4),
                *([self._change] * 4),
                *([self._drop_column] * 3),
                *([self._rename_column] * 2),
                self._default,
                self._visibility,
                self._add_key,
                self._add_key,
                self._drop_key,
                self._convert,
                self._convert,
                self._rename_to,
                self._option,
            )
        )(names)

    def _column_of(self, names: list[str]) -> str:
        if self._random.random() < 0.05:
            return self._quoted(self._columns.name())
        return self._quoted(self._random.choice(names))

    def _place(self, names: list[str]) -> str:
        draw = self._random.random()
        if draw < 0.2:
            return " FIRST"
        return f" AFTER {self._column_of(names)}" if draw < 0.5 else ""

    def _add(self, names: list[str]) -> str:
        word = self._random.choice(("ADD", "ADD COLUMN"))
        if self._random.random() < 0.15:
            parts = ", ".join(
                f"{self._quoted(name)} {text}" for name, text in self._columns.definitions(2)
            )
            return f"{word} ({parts})"
        ((name, text),) = self._columns.definitions(1)
        return f"{word} {self._quoted(name)} {text}{self._place(names)}"

    def _modify(self, names: list[str]) -> str:
        word = self._random.choice(("MODIFY", "MODIFY COLUMN"))
        text = self._columns.definition()
        return f"{word} {self._column_of(names)} {text}{self._place(names)}"

    def _change(self, names: list[str]) -> str:
        old = self._column_of(names)
        new = old if self._random.random() < 0.4 else self._quoted(self._columns.name())
        return f"CHANGE {old} {new} {self._columns.definition()}{self._place(names)}"

    def _drop_column(self, names: list[str]) -> str:
        return f"{self._random.choice(('DROP', 'DROP COLUMN'))} {self._column_of(names)}"

    def _rename_column(self, names: list[str]) -> str:
        new = self._random.choice((self._columns.name(), self._random.choice(names)))
        return f"RENAME COLUMN {self._column_of(names)} TO {self._quoted(new)}"

    def _default(self, names: list[str]) -> str:
        what = self._random.choice(("DROP DEFAULT", "SET DEFAULT '1'", "SET DEFAULT NULL"))
        return f"ALTER COLUMN {self._column_of(names)} {what}"

    def _visibility(self, names: list[str]) -> str:
        what = self._random.choice(("VISIBLE", "INVISIBLE"))
        return f"ALTER {self._column_of(names)} SET {what}"

    def _add_key(self, names: list[str]) -> str:
        return f"ADD {self._key(names)}"

    def _drop_key(self, _names: list[str]) -> str:
        return self._random.choice(("DROP PRIMARY KEY", "DROP PRIMARY KEY", "DROP KEY k1"))

    def _convert(self, _names: list[str]) -> str:
        words = self._random.choice(CHARSETS)
        return f"CONVERT TO {words}" if self._random.random() < 0.6 else f"DEFAULT {words}"

    def _rename_to(self, _names: list[str]) -> str:
        word = self._random.choice(("RENAME", "RENAME TO", "RENAME AS"))
        return f"{word} {self._written(self._other_table())}"

    def _option(self, _names: list[str]) -> str:
        return self._random.choice(
            (
                "FORCE",
                "COMMENT 'a, b'",
                "ENGINE=InnoDB",
                "ALGORITHM=COPY",
                "LOCK=DEFAULT",
                "DISABLE KEYS",
                "RENAME INDEX k1 TO k9",
                "DROP CHECK ck",
                "DROP CONSTRAINT pk",
                "DROP FOREIGN KEY fk",
                "ROW_FORMAT DYNAMIC, STATS_PERSISTENT 0",
            )
        )

    def _rename(self, there: Seen) -> str:
        if len(there.tables) > 1 and self._random.random() < 0.3:
            one, other = (
                self._written(name) for name in self._random.sample(sorted(there.tables), 2)
            )
            return f"RENAME TABLE {one} TO d1.swap, {other} TO {one}, d1.swap TO {other}"
        old, new = self._written(self._table(there)), self._written(self._other_table())
        return f"RENAME TABLE {old} TO {new}"

    def _drop(self, there: Seen) -> str:
        names = [self._written(self._table(there)) for _ in range(self._random.choice((1, 1, 2)))]
        return f"DROP TABLE {self._chance(0.4, 'IF EXISTS ')}{', '.join(names)}"

    def _create_index(self, there: Seen) -> str:
        name = self._table(there)
        table = self._known(there, name)
        names = [column.name for column in table.columns] if table else ["a"]
        kind = self._random.choice(("", "", "UNIQUE ", "FULLTEXT "))
        return (
            f"CREATE {kind}INDEX {self._random.choice(('k1', 'k3', 'k4'))} ON {self._written(name)} "
            f"({self._key_columns(names)})"
        )

    def _drop_index(self, there: Seen) -> str:
        key = self._random.choice(("k1", "k2", "k3", "k4", "`PRIMARY`"))
        return f"DROP INDEX {key} ON {self._written(self._table(there))}"

    def _create_database(self, _there: Seen) -> str:
        name, exists = self._random.choice(DATABASES), self._chance(0.5, "IF NOT EXISTS ")
        return f"CREATE DATABASE {exists}{name} {self._random.choice(('', *CHARSETS))}".rstrip()

    def _alter_database(self, _there: Seen) -> str:
        words = self._random.choice((*CHARSETS, "COLLATE utf8mb4_bin", "COLLATE latin1_bin"))
        return f"ALTER DATABASE {self._random.choice((*DATABASES, ''))} {words}"

    def _drop_database(self, _there: Seen) -> str:
        return f"DROP DATABASE {self._random.choice(DATABASES)}"

    def _noise(self, there: Seen) -> str:
        text = self._random.choice(NOISE)
        return text.replace("{}", self._written(self._table(there)))

    def _set(self, _there: Seen) -> str:
        return self._random.choice(
            (
                f"SET sql_mode = '{self._random.choice(MODES)}'",
                f"SET explicit_defaults_for_timestamp = {self._random.choice(('ON', 'OFF'))}",
                "SET NAMES utf8mb4",
                f"SET collation_server = {self._random.choice(('latin1_bin', 'DEFAULT'))}",
            )
        )

    def _use(self, _there: Seen) -> str:
        return f"USE {self._random.choice(DATABASES)}"


def _names_in(text: str) -> set[str]:
    return set(re.findall(r"[\w`]+", text.lower())) & _NAME_WORDS
