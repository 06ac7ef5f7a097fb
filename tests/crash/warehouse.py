"""The warehouse in the verdict: a sink that applies batches during the faults, and its final tables.

Invariant: its tables are compared with the source's own, row by row; the last batch must succeed, whatever the
outcome of those before.
"""

from __future__ import annotations

from tests.crash import load as loads
from tests.crash.scene import DESTINATION, Scene
from tests.crash.sinks import Order
from tests.crash.verdict import Findings, Source, Topics, applied, different


def apply(at: Scene) -> None:
    """Make the sink apply what is there, if there is one and it is idle; do not wait for it."""
    if at.servers.sinking is not None:
        at.servers.sinking.apply(order_of(at))


def wait_for_sink(at: Scene) -> None:
    """Wait until nothing is being applied."""
    if at.servers.sinking is not None:
        at.servers.sinking.wait()


def order_of(at: Scene) -> Order:
    """To apply all of a scene's topics to its warehouse."""
    return Order(
        prefix=at.prefix,
        bootstrap=at.servers.kafka,
        warehouse=str(at.folder / "warehouse"),
        database=DESTINATION,
        tables=loads.TABLES,
        exclude=at.not_sunk,
    )


def compared(at: Scene, source: Source, topics: Topics, *, whole: bool) -> Findings:
    """What is wrong with the warehouse: held against the source, or against the topics where not all of the
    source had to be published. Without a sink nothing is."""
    if at.servers.sinking is None:
        return {}
    done = at.servers.sinking.tables(order_of(at))
    if done.error is not None:
        return {"warehouse": [done.error]}
    held = {table: {row["id"]: row for row in rows} for table, rows in done.tables.items()}
    twice = [
        f"{table} has {len(rows) - len(held[table])} rows more than keys"
        for table, rows in done.tables.items()
        if len(rows) != len(held[table])
    ]
    due = source.rows if whole else applied(topics.rows)
    wrong = twice + different({table: due.get(table, {}) for table in loads.TABLES}, held)
    return {"warehouse": wrong} if wrong else {}
