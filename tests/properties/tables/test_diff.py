"""Two definitions differ exactly where they are not equal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.ddl.definition import Column, Index, Table
from tables.history.differences import differences
from tests.properties.examples import examples

columns = st.builds(
    Column,
    name=st.sampled_from("abc"),
    type=st.sampled_from(("int", "text")),
    nullable=st.booleans(),
    charset=st.none(),
    collation=st.none(),
    generated=st.sampled_from((None, "virtual", "stored")),
    invisible=st.booleans(),
    definition=st.sampled_from(("", "COMMENT 'x'")),
)

keys = st.builds(
    Index,
    name=st.sampled_from(("PRIMARY", "k")),
    columns=st.sampled_from((("a",), ("a", "b"))),
    unique=st.just(True),
    kind=st.just(""),
)

tables = st.builds(
    Table,
    columns=st.lists(columns, min_size=1, max_size=3, unique_by=lambda one: one.name).map(tuple),
    indexes=st.lists(keys, max_size=2, unique_by=lambda one: one.name).map(tuple),
    charset=st.sampled_from(("latin1", "utf8mb4")),
    collation=st.just("x"),
    options=st.sampled_from(("", "ENGINE=InnoDB")),
)


@settings(max_examples=examples(400))
@given(tables, tables)
def test_there_is_a_difference_exactly_where_definitions_are_not_alike(
    old: Table, new: Table
) -> None:
    assert bool(differences(old, new)) is (shown(old) != shown(new))
    backward = {(one.what, one.name): (one.new, one.old) for one in differences(new, old)}
    assert backward == {(one.what, one.name): (one.old, one.new) for one in differences(old, new)}


def shown(one: Table) -> Table:
    """A definition whose keys are in the order of their names, which means nothing."""
    return replace(one, indexes=tuple(sorted(one.indexes, key=lambda key: key.name)))
