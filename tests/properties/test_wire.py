"""No two tables share a topic, no two changes of a transaction a name."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from wire.changes import change_id
from wire.topics import ddl_topic, journal_topic, row_topic, schemas_topic, transactions_topic

# Letters that the encoding gives a meaning to come often.
names = st.one_of(
    st.text("ab-_.x2", min_size=1, max_size=6),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64),
)

tables = st.tuples(names, names)


def kafkas(topic: str) -> str:
    """What Kafka compares topics by."""
    return topic.replace(".", "_")


@given(one=tables, other=tables)
@example(one=("x_y", "z"), other=("x", "y_z"))
@example(one=("x.y", "z"), other=("x", "y.z"))
@example(one=("a", "-2d"), other=("a", "-"))
@example(one=("a" * 64, "\u4e00" * 64), other=("a" * 64, "\u4e00" * 63 + "\u4e01"))
@example(one=("\u4e00" * 64, "a"), other=("\u4e00" * 64, "b"))
def test_no_two_tables_meet_in_a_topic_also_where_kafka_takes_a_point_for_an_underscore(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    topics = kafkas(row_topic("aq", *one)), kafkas(row_topic("aq", *other))
    assert (topics[0] == topics[1]) == (one == other)


@given(table=tables)
@example(table=("\U0001f600" * 64, "\U0001f600" * 64))
def test_a_topic_is_one_that_kafka_takes(table: tuple[str, str]) -> None:
    topic = row_topic("a" * 100, *table)
    assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic)


@given(table=tables)
@example(table=("_", "journal"))
@example(table=("__transactions", "shop"))
def test_no_table_meets_a_topic_of_our_own(table: tuple[str, str]) -> None:
    ours = {
        kafkas(topic)
        for topic in (
            journal_topic("aq"),
            schemas_topic("aq"),
            transactions_topic("aq", "shop"),
            ddl_topic("aq", "shop"),
        )
    }
    assert kafkas(row_topic("aq", *table)) not in ours


@given(ordinals=st.lists(st.tuples(st.integers(0), st.sampled_from([None, 0, 1])), unique=True))
def test_no_two_changes_of_a_transaction_have_one_name(
    ordinals: list[tuple[int, int | None]],
) -> None:
    assert len({change_id("u:1", *one) for one in ordinals}) == len(ordinals)
