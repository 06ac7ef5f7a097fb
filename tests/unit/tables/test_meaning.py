"""Steps of a history, as subscribers are told of them."""

from connectors.mysql.ddl.cut_over import Noise, OnlineAlter, SetAside
from connectors.mysql.ddl.definition import TableChange
from connectors.mysql.ddl.online import ShadowRules
from tables.history import SchemaHistory
from tables.meaning import last_definition, meaning
from tests.unit.tables.made import ORDERS, applied, begun, names_of

RULES = ShadowRules()


def told(history: SchemaHistory, *statements: str) -> list[object]:
    found: list[object] = []
    for number, sql in enumerate(statements, history.count + 1):
        found += meaning(applied(history, 1000 * number, sql), history, RULES)
    return found


def test_a_swap_in_two_steps_is_one_alter_with_the_definition_of_before() -> None:
    history = begun("orders")
    found = told(
        history,
        "CREATE TABLE _orders_new LIKE orders",
        "ALTER TABLE _orders_new ADD note text",
        "DROP TABLE orders",
        "CREATE TABLE other (id int)",
        "RENAME TABLE _orders_new TO orders",
    )
    assert [type(each) for each in found] == [Noise, Noise, SetAside, TableChange, OnlineAlter]
    alter = found[-1]
    assert isinstance(alter, OnlineAlter)
    assert (names_of(alter.old), names_of(alter.new)) == (["id"], ["id", "note"])


def test_a_step_means_the_same_when_it_is_read_again() -> None:
    history = begun("orders")
    told(history, "CREATE TABLE _orders_gho LIKE orders")
    record = applied(history, 9000, "RENAME TABLE orders TO _orders_del, _orders_gho TO orders")
    assert meaning(record, history, RULES) == meaning(record, history, RULES)


def test_the_last_definition_of_a_name_is_found_where_it_is_gone() -> None:
    history = begun("orders")
    assert last_definition(history, ORDERS, before=1) is None
    told(
        history, "ALTER TABLE orders ADD a int", "DROP TABLE orders", "CREATE TABLE orders (x int)"
    )
    assert names_of(last_definition(history, ORDERS, before=3)) == ["id", "a"]
    assert names_of(last_definition(history, ORDERS, before=4)) == ["x"]
