import pytest

from bench.workloads import COUNTED, SHOWN, W1, W1_SPREAD, W2, Recipe, digest, small


def test_the_first_workload_is_300000_inserts_with_a_fifth_updated_and_a_tenth_deleted() -> None:
    assert (W1.creates, W1.updates, W1.deletes) == (300_000, 60_000, 30_000)
    assert W1.rows == W1.transactions == 390_000


def test_the_second_is_5000_transactions_of_100_rows_with_12_columns() -> None:
    assert (W2.transactions, W2.rows) == (5_000, 500_000)
    assert W2.schema[0].count(",\n") + W2.schema[0].count(", ") >= 11


@pytest.mark.parametrize("recipe", [*COUNTED, *SHOWN], ids=lambda recipe: recipe.name)
def test_no_two_workloads_share_a_table_or_a_procedure(recipe: Recipe) -> None:
    others = [other for other in (*COUNTED, *SHOWN) if other is not recipe]
    assert not any({*recipe.tables} & {*other.tables} for other in others)
    assert not any(
        recipe.call.partition("(")[0] == other.call.partition("(")[0] for other in others
    )


def test_each_of_many_tables_has_its_share_of_every_kind() -> None:
    turns = [(i + i // 10) % 50 for i in range(5_000)]
    for kind in (range(1, 5_000, 5), range(3, 5_000, 10)):
        assert {turns[i] for i in kind} == set(range(50))
    assert "CASE (i + i DIV 10) % 50" in W1_SPREAD.schema[-1]


def test_another_number_of_transactions_makes_other_binlogs() -> None:
    assert digest([small("x", 10)]) == digest([small("x", 10)])
    assert digest([small("x", 10)]) != digest([small("x", 11)])
