"""The corpus: statements as users and programs write them, one file for each theme.

A statement ends with ``;`` at the end of a line, or with what a ``DELIMITER`` line says, as in the ``mysql``
program. Lines that begin with ``#:`` are for the reader of the file:

* ``#: on 9.7 8.0 mariadb-11.8``: the servers that take this file; 9.7 where it does not say.
* ``#: only 9.7 8.0``: the next statement is for some of them.
* ``#: session b``: what follows is sent through another connection, until the next such line.
* ``#: as written``: the next statement means what data or settings of the server make of it; what decides
  is how the server writes it into its binlog.
* ``#: refused``: the server gives an error for the next statement; what it did before that is in its binlog.
* anything else is a remark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
_REMARK = "#:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One statement."""

    line: int
    """The line where it begins in its file, from 1."""
    sql: str
    only: tuple[str, ...] = ()
    session: str = "a"
    as_written: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFile:
    """The statements of one theme; the first finds a server without databases."""

    path: Path
    servers: tuple[str, ...]
    entries: tuple[Entry, ...]

    def on(self, server: str) -> list[Entry]:
        """The statements for a server."""
        return [entry for entry in self.entries if not entry.only or server in entry.only]


def corpus() -> list[CorpusFile]:
    """All files, by name."""
    return [parse(path) for path in sorted(FOLDER.glob("*.sql"))]


def parse(path: Path) -> CorpusFile:
    """One file."""
    state = _Reading()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        state.take(number, line)
    if state.lines:
        raise ValueError(f"{path}:{state.begin}: the statement does not end")
    return CorpusFile(path=path, servers=state.servers, entries=tuple(state.entries))


@dataclass(slots=True)
class _Reading:
    """The parts read of a file so far."""

    entries: list[Entry] = field(default_factory=list)
    servers: tuple[str, ...] = ("9.7",)
    lines: list[str] = field(default_factory=list)
    begin: int = 0
    delimiter: str = ";"
    session: str = "a"
    only: tuple[str, ...] = ()
    marks: set[str] = field(default_factory=set)

    def take(self, number: int, line: str) -> None:
        if line.startswith("DELIMITER ") and all(one.startswith("--") for one in self.lines):
            self.lines, self.delimiter = [], line.split()[1]
            return
        if not self.lines:
            if line.startswith(_REMARK):
                self._remark(line.removeprefix(_REMARK).strip())
                return
            if not line.strip():
                return
            self.begin = number
        if line.rstrip().endswith(self.delimiter):
            self.lines.append(line.rstrip().removesuffix(self.delimiter))
            self._end()
        else:
            self.lines.append(line)

    def _remark(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word == "on":
            self.servers = tuple(rest.split())
        elif word == "only":
            self.only = tuple(rest.split())
        elif word == "session":
            self.session = rest
        elif text in ("as written", "refused"):
            self.marks.add(text)

    def _end(self) -> None:
        entry = Entry(
            line=self.begin,
            sql="\n".join(self.lines),
            only=self.only,
            session=self.session,
            as_written="as written" in self.marks,
            refused="refused" in self.marks,
        )
        self.entries.append(entry)
        self.lines, self.marks, self.only = [], set(), ()
