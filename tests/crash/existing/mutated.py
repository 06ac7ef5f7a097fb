"""``python -m tests.crash.existing.mutated [NAME]``: a worker that reads small chunks, with a broken guard.

With ``pytest`` and its arguments after the name, tests are run with the same guard broken.

Invariant: the guard is broken here, in a process of the tests; the product has no switch for it. Each mutant
is a change that could be made by mistake.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from devstack.programs import ARGUMENTS

Patch = Callable[[], None]

# Modules of the product, to be changed: what they are said to hold does not count here.
_of: Callable[[str], Any] = importlib.import_module
reading = _of("connectors.mysql.select.chunk_reader")
query = _of("connectors.mysql.select.chunk_query")
entries = _of("app.worker.destination.snapshot.entries")
keys = _of("app.worker.pipeline.number")
gather, selected = (
    _of("app.worker.pipeline.gather.gather"),
    _of("app.worker.pipeline.gather.selected"),
)
decoded = _of("app.worker.pipeline.decoded")
SMALL, MOST = 10, 30
"""Rows of the first chunk, and of the largest one."""
_AGAIN_AT = 3
_SLOW_SECONDS = 0.1


def small_chunks() -> None:
    """Chunks of some rows, so that a small table has many."""
    reading._FIRST_ROWS, reading.MOST_ROWS = SMALL, MOST


def slow_decoding() -> None:
    """More changes come between a SELECT and its rows, as on a machine with much to do."""
    stage = _of("app.worker.pipeline.stage").ChunkStage
    real = stage._selected

    def decode(self: Any, portion: Any) -> Any:
        time.sleep(_SLOW_SECONDS)
        return real(self, portion)

    stage._selected = decode


def low_too_early() -> None:
    """A SELECT does not wait until it sees what the stream has published."""
    reading.ReadViews.prove = lambda _self, _sees, **_: ""


def high_too_early() -> None:
    """Rows enter at the next boundary, though their SELECT may have seen later changes."""
    real = entries.Entries.hand_in

    def hand_in(self: Any, number: int, entering: Any, **_more: Any) -> Any:
        return real(self, number, entering)

    entries.Entries.hand_in = hand_in


def chunk_repeated() -> None:
    """The third chunk is the second one again."""
    real, calls = reading.chunk_query, dict[Any, list[Any]]()

    def chunk_query(name: Any, select_list: str, **more: Any) -> str:
        after = calls.setdefault(name, [])
        after.append(more["after"])
        if len(after) == _AGAIN_AT:
            more["after"] = after[-2]
        return str(real(name, select_list, **more))

    reading.chunk_query = chunk_query


def key_order() -> None:
    """Rows are read in another order than that of their key."""
    real = reading.chunk_query

    def chunk_query(*given: Any, **more: Any) -> str:
        text = real(*given, **more)
        return re.sub(r"ORDER BY (.+?)(, .+)? LIMIT", r"ORDER BY \1 DESC\2 LIMIT", text)

    reading.chunk_query = chunk_query


def last_row_twice() -> None:
    """A chunk begins with the last row of the one before: >= instead of >."""
    _compared({">": ">="})


def last_row_omitted() -> None:
    """The last row that there was at the beginning is omitted: < instead of <=."""
    _compared({"<=": "<"})


def _compared(others: dict[str, str]) -> None:
    real = query._beyond

    def beyond(columns: list[str], key: list[str], *, side: str, last: str) -> str:
        return str(real(columns, key, side=side, last=others.get(last, last)))

    query._beyond = beyond


def keys_forgotten() -> None:
    """A generation of keys begins by forgetting those before."""
    _generations(lambda known, _news: known.clear())


def dropped_too_early() -> None:
    """The generation of keys that the oldest chunk under way needs is dropped."""
    _generations(lambda known, news: known.pop(news.kept, None))


def _generations(spoil: Callable[[dict[int, Any], Any], object]) -> None:
    real = keys.ChangedKeys.learn

    def learn(self: Any, news: Any) -> None:
        known = self._tables.get(getattr(news, "table", None))
        if isinstance(news, keys.GenerationBegun) and known is not None:
            spoil(known, news)
        real(self, news)

    keys.ChangedKeys.learn = learn


def refused_alone() -> None:
    """Chunks after a refused one are published all the same."""
    keys.ChangedKeys.is_refused = lambda *_: False


def note_apart() -> None:
    """The record of a chunk is in the transaction after that of its rows."""
    real_read, real, late = decoded.DecodedRead.encode, decoded.DecodedItems.encode, list[Any]()

    def encode_read(self: Any) -> Any:
        piece = real_read(self)
        late.extend(piece.notes)
        piece.notes.clear()
        return piece

    def encode(self: Any) -> Any:
        piece = real(self)
        piece.notes.extend(late)
        late.clear()
        return piece

    decoded.DecodedRead.encode, decoded.DecodedItems.encode = encode_read, encode


def old_definition() -> None:
    """Rows that were read before an ALTER are published after it, as the table was."""
    real, known = selected.SelectGathering.all, dict[Any, Any]()

    class Remembered:
        """Tables that are also known by an earlier definition."""

        def __init__(self, tables: Any) -> None:
            self._tables = tables

        def of(self, table_map: Any) -> Any:
            place = table_map.database, table_map.table, table_map.columns
            try:
                known[place] = self._tables.of(table_map)
            except selected.WitnessesDiffer:
                if place not in known:
                    raise
            return known[place]

    def all_(self: Any, transaction: Any, table_map: Any, blocks: Any, pos: int) -> None:
        tables = self._tables
        self._tables = self._gathering._tables = Remembered(tables)
        try:
            real(self, transaction, table_map, blocks, pos)
        finally:
            self._tables = self._gathering._tables = tables

    selected.SelectGathering.all = all_
    gather.Gathering._changed_by = lambda *_: iter(())


def old_key_not_noted() -> None:
    """Of an update that changes a key only the new one is noted."""
    real = gather.changed_keys

    def changed_keys(table: Any, rows: list[Any]) -> Any:
        found = real(table, rows)
        return found and [row[2] if row[3] is None else row[3] for row in rows]

    gather.changed_keys = changed_keys


WHOLE = "whole"
"""The name of none: the worker is as slow as a broken one, and does nothing wrong."""
PATCHES: dict[str, Patch] = {
    "low-too-early": low_too_early,
    "high-too-early": high_too_early,
    "chunk-repeated": chunk_repeated,
    "key-order": key_order,
    "last-row-twice": last_row_twice,
    "last-row-omitted": last_row_omitted,
    "keys-forgotten": keys_forgotten,
    "dropped-too-early": dropped_too_early,
    "refused-alone": refused_alone,
    "note-apart": note_apart,
    "old-definition": old_definition,
    "old-key-not-noted": old_key_not_noted,
}


def command(name: str = "") -> tuple[str, ...]:
    """The worker's command line; broken ones are slow, and without a name it is neither."""
    return sys.executable, "-m", "tests.crash.existing.mutated", *([name] if name else [])


def main(name: str, *arguments: str) -> int:
    """Run the worker, or the tests."""
    if name and name != WHOLE:
        PATCHES[name]()
    if arguments:
        import pytest

        return int(pytest.main(list(arguments[1:])))
    from faust.cli.faust import cli

    small_chunks()
    if name:
        slow_decoding()
    sys.argv = ["faust", *ARGUMENTS]
    cli()
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [""])))
