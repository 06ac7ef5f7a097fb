"""Random statements of mostly comments, quotes and version gates, which only a lexer decides.

Invariant: each adds columns, so that whatever is not read as the server reads it shows as a column.
"""

from __future__ import annotations

from random import Random

from tests.integration.ddl.truth import Seen

MODES = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
_GATES = (
    "", "50000", "50001 ", "40101", "50601", "50700 ", "80000 ", "80100", "90000 ", "99999 ", "99999",
    "050000 ", "080100 ", "099999 ", "100000 ", "1000000", "506012", "5000", "100100 ", "101106",
    "110800 ", "999999 ",
)  # fmt: skip
_INNER = (
    "", " ", "/*", "/* ", " /api/* ", "'", '"', "`", "--", "-- ", "#", "*", "/", "\\", "; ", "!50000", "M!",
    " 12345 ", " 99999 x ", "/*!50000 ", "/*!99999 ", "\n",
)  # fmt: skip
_LINES = ("-- ", "#", "--\t")
_TEXTS = (
    "a", "*/", "/*", "/*!50000 , ADD no int */", "\\\\",
    "''", '""', "``", "-- ", "# ", "\\n", "x/*!99999 y*/", " */ ",
)  # fmt: skip


class Comments:
    """An endless row of them, about one table; every few of them a SET of the lexer's mode."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._columns = 0
        self._ansi = self._plain_backslash = False

    def next(self, there: Seen) -> str:
        """A new statement, for a server with these tables."""
        chance = self._random.random()
        if chance < 0.08:
            mode = self._random.choice(MODES)
            self._ansi, self._plain_backslash = "ANSI" in mode, "NO_BACK" in mode
            return f"SET sql_mode = '{mode}'"
        table = there.tables.get(("d1", "t"))
        if table is not None and len(table.columns) > 60:
            return "DROP TABLE t"
        if table is None:
            return f"CREATE TABLE{self._gap()}t{self._gap()}({self._column()}{self._more(',')}{self._gap()})"
        return f"{self._gap()}ALTER TABLE t{self._gap()}ADD {self._column()}{self._more(', ADD')}{self._gap()}"

    def _more(self, separator: str) -> str:
        return "".join(self._one_more(separator) for _ in range(self._random.randint(0, 3)))

    def _one_more(self, separator: str) -> str:
        added = f"{separator} {self._column()}"
        chance = self._random.random()
        if chance < 0.3:
            return f"{self._gap()}{added}"
        if chance < 0.7:
            return f" /*!{self._gate()}{added}{self._gap()}*/"
        if chance < 0.8:
            return f" /*M!{self._gate()}{added}{self._gap()}*/"
        return f" /*{self._inner()}{added}{self._inner()}*/"

    def _gap(self) -> str:
        """Separators between tokens."""
        chance = self._random.random()
        if chance < 0.6:
            return " "
        if chance < 0.85:
            return f" /*{self._inner()}*/ "
        if chance < 0.93:
            return f" /*!{self._gate()}*/ "
        return f" {self._random.choice(_LINES)}{self._inner()}\n"

    def _inner(self) -> str:
        return "".join(self._random.choice(_INNER) for _ in range(self._random.randint(0, 3)))

    def _gate(self) -> str:
        return self._random.choice(_GATES)

    def _column(self) -> str:
        self._columns += 1
        kind = self._random.choice(
            (
                "int",
                "int",
                "int",
                "datetime(/*!506013*/)",
                "datetime(/*!50601 3*/)",
                "char(1/*!999991*/)",
            )
        )
        text = f"{self._name()} {kind}"
        if self._random.random() < 0.4:
            text += f" COMMENT {self._string()}"
        return text

    def _name(self) -> str:
        name = f"c{self._columns}"
        if self._random.random() < 0.6:
            return name
        quote = self._random.choice('`"' if self._ansi else "`")
        more = self._random.choice(_TEXTS).replace(quote, "").replace("\n", "")
        return f"{quote}{name}{more}.{quote}"

    def _string(self) -> str:
        quote = self._random.choice("'" if self._ansi else "'\"")
        inner = "".join(self._random.choice(_TEXTS) for _ in range(self._random.randint(0, 2)))
        return f"{quote}{inner.replace(quote, quote * 2)}{quote}"
