"""Whether a table still has rows of a load, which no topic has.

Such rows go with their table when it is renamed, and are gone once it was dropped or truncated since.

Invariant: if it is not known whether a table has such rows, it counts as having them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spark_sink.jobs.load.state import LoadState
from spark_sink.warehouse.ledger import Floors, Source
from spark_sink.warehouse.moves import Name, Piece, belongs


def has_rows_of(
    name: Name,
    placed: Iterable[LoadState],
    pieces: Mapping[tuple[str, Name], Sequence[Piece]],
    floors: Floors,
) -> bool:
    """Whether a table has rows of any load that was put in place, whichever table was loaded.

    `pieces` state where the rows of each table belong now (see `moves.pieces`); `floors` are the table's.
    """
    replaced: set[Name] = set()
    for state in sorted(placed, key=_written, reverse=True):
        stays = False
        for one in state.sources:
            low = state.lows[one.destination]
            at, source = (low.epoch, low.seq), one.source(state.name)
            now: Name | None = state.name
            if not one.is_mapped:
                # Rows of mapped tables stay where the mapping puts them.
                now = belongs(pieces.get((one.destination, state.name), [(None, state.name)]), at)
                source = Source(one.destination, *(now or state.name))
            is_here = now == state.name
            stays |= is_here
            if is_here and state.name in replaced:
                # The rows of a later load have replaced these.
                continue
            if now == name and floors.get(source, (-1, -1)) <= at:
                return True
        if stays:
            replaced.add(state.name)
    return False


def _written(state: LoadState) -> int:
    return max(low.written_ms for low in state.lows.values())
