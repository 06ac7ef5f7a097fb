"""Random events of a source: rows, statements, and the cuts of its binlog."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

TABLES = (("shop", "orders"), ("shop", "log"), ("other", "orders"))
"""With a key and captured, without a key and captured, with a key and filtered."""
TOPICS = {("shop", "orders"): "aq.shop.orders", ("shop", "log"): "aq.shop.log"}


@dataclass(frozen=True, slots=True)
class RowsOf:
    """A rows event: for each row the key before and after, the same but where a key changes."""

    table: tuple[str, str]
    op: str
    keys: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement; ``widens`` names the table that gets a column more."""

    sql: str
    widens: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """A TRUNCATE of a table."""

    table: tuple[str, str]


Action = RowsOf | Ddl | Truncate
Change = tuple[str, str, str, str | None]
"""Topic, kind (``tombstone`` and ``ddl`` too), ChangeId, key as text."""


@st.composite
def rows_events(draw: st.DrawFn) -> RowsOf:
    op = draw(st.sampled_from("cuud"))
    number = st.integers(1, 3)
    pairs = draw(st.lists(st.tuples(number, number), min_size=1, max_size=5))
    keys = tuple((old, new if op == "u" else old) for old, new in pairs)
    return RowsOf(draw(st.sampled_from(TABLES)), op, keys)


ddls = st.one_of(
    st.just(Ddl("CREATE VIEW v AS SELECT 1")),
    st.sampled_from(TABLES).map(lambda name: Ddl(f"ALTER TABLE {name[1]} ADD c INT", name)),
)
transactions: st.SearchStrategy[list[Action]] = st.one_of(
    st.lists(st.one_of(rows_events(), rows_events(), rows_events(), ddls), max_size=6).map(
        list[Action]
    ),
    st.sampled_from(TABLES).map(lambda name: [Truncate(name)]).map(list[Action]),
)
histories: st.SearchStrategy[list[list[Action]]] = st.lists(transactions, min_size=1, max_size=6)


cuts: st.SearchStrategy[tuple[bool, ...]] = st.lists(st.booleans(), min_size=1, max_size=24).map(
    tuple
)
"""Whether to cut, at each possible position in turn; repeated from the first after the last."""
