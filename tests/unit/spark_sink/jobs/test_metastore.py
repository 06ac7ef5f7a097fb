"""What is registered in a metastore, by what the warehouse has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_sink import __main__ as command
from spark_sink.errors import MetastoreIncomplete, TypeConflict
from spark_sink.jobs.metastore import (
    Registered,
    Registrar,
    distinct,
    metastore_lines,
    plain,
    view_sql,
)
from spark_sink.text.quoting import METASTORE
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from tests.harness.memory_metastore import MemoryMetastore
from tests.harness.memory_warehouse import MemoryNotes


class Tables:
    """The warehouse's tables."""

    def __init__(self, *names: Name) -> None:
        self.shapes = {name: shape(*name) for name in names}
        self.broken: set[Name] = set()
        self.read: list[Name] = []

    def names(self) -> list[Name]:
        return list(self.shapes)

    def shape(self, database: str, table: str) -> Shape | None:
        self.read.append((database, table))
        if (database, table) in self.broken:
            raise TypeConflict(f"{database}.{table}")
        return self.shapes[database, table]


def shape(database: str, table: str, *more: str, key: tuple[str, ...] = ("id",)) -> Shape:
    return Shape(database, table, tuple((name, "int") for name in ("id", "v", *more)), key)


class Scene:
    """A warehouse, a metastore, and what registers."""

    def __init__(self, *names: Name, views: str = "{database}_current") -> None:
        self.metastore, self.tables, self.notes = MemoryMetastore(), Tables(*names), MemoryNotes()
        self.registrar = Registrar(
            metastore=self.metastore,
            tables=cast(Any, self.tables),
            notes=self.notes,
            root="/wh",
            databases="{database}",
            views=views,
            clock=lambda: 1.0,
        )

    def bring_up(self) -> Registered:
        found = self.registrar.bring_up()
        assert Registered.of(self.notes.read(METASTORE)) == found
        return found


def test_tables_and_views_follow_the_warehouse() -> None:
    at = Scene(("shop", "t"), ("shop", "u"))
    at.bring_up()
    assert at.metastore.held == {
        ("shop", "t"): "/wh/shop/t",
        ("shop_current", "t"): "/wh/shop/t",
        ("shop", "u"): "/wh/shop/u",
        ("shop_current", "u"): "/wh/shop/u",
    }
    query = "SELECT `id`, `v` FROM `shop`.`t` WHERE NOT __deleted"
    assert at.metastore.views["shop_current", "t"] == query
    # A column more, a table less, and one that was renamed.
    at.tables.shapes["shop", "t"] = shape("shop", "t", "w")
    at.tables.shapes["shop", "x"] = at.tables.shapes.pop(("shop", "u"))
    found = at.bring_up()
    assert "`id`, `v`, `w`" in at.metastore.views["shop_current", "t"]
    assert ("shop", "u") not in at.metastore.held
    assert ("shop_current", "u") not in at.metastore.held
    assert at.metastore.held["shop", "x"] == "/wh/shop/x"
    assert metastore_lines(found)[0] == (
        "metastore: 2 tables, brought up to date 1970-01-01T00:00:01Z"
    )


def test_what_somebody_else_removed_is_registered_again() -> None:
    at = Scene(("shop", "t"))
    before = at.bring_up()
    for name in list(at.metastore.held):
        at.metastore.remove(name)
    assert at.bring_up() == before
    assert set(at.metastore.held) == {("shop", "t"), ("shop_current", "t")}


def test_a_name_of_somebody_else_is_neither_replaced_nor_removed() -> None:
    at = Scene(("shop", "t"), ("shop", "u"))
    other = distinct(("shop", "t"))
    at.metastore.held[("shop", "t")] = "/elsewhere"
    at.metastore.held[("shop_current", "t")] = ""
    found = at.bring_up()
    assert found.entries["shop", "t"].table == ("shop", other)
    assert found.entries["shop", "t"].view == ("shop_current", other)
    assert at.metastore.held["shop", "t"] == "/elsewhere"
    # What it has taken since is kept too.
    at.metastore.held[("shop", "u")] = "/elsewhere"
    del at.tables.shapes["shop", "u"]
    at.bring_up()
    assert at.metastore.held["shop", "u"] == "/elsewhere"


@pytest.mark.remedy("sink.NameTaken")
def test_without_a_free_name_the_others_are_registered_all_the_same() -> None:
    at = Scene(("shop", "t"), ("shop", "u"))
    at.metastore.held[("shop", "t")] = at.metastore.held[("shop", distinct(("shop", "t")))] = (
        "/else"
    )
    at.tables.broken.add(("shop", "x"))
    at.tables.shapes["shop", "x"] = shape("shop", "x")
    found = at.bring_up()
    assert set(found.entries) == {("shop", "u")}
    assert found.faults["shop", "t"].startswith("NameTaken: shop.t and shop.t_")
    assert found.faults["shop", "x"] == "TypeConflict: shop.x"
    assert any("shop.x: TypeConflict" in line for line in metastore_lines(found))
    at.tables.broken.clear()
    assert set(at.bring_up().faults) == {("shop", "t")}
    del at.metastore.held[("shop", "t")]
    assert at.bring_up().faults == {}


@pytest.mark.remedy("sink.MetastoreIncomplete")
def test_the_command_fails_until_the_metastore_answers_and_has_room_for_each_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = Scene(("shop", "t"), ("shop", "u"))
    monkeypatch.setattr(command, "_warehouse", lambda *_: None)
    monkeypatch.setattr(command, "registrar", lambda *_: at.registrar)
    settings: Any = SimpleNamespace(metastore=SimpleNamespace(uri="thrift://hive:9083"))
    spark: Any = None
    at.metastore.is_away = True
    with pytest.raises(MetastoreIncomplete, match=r"MetastoreUnreachable: .*Bring it back"):
        command._register(spark, settings)
    at.metastore.is_away = False
    names = {("shop", "t"), ("shop", distinct(("shop", "t")))}
    at.metastore.held |= dict.fromkeys(names, "/elsewhere")
    capsys.readouterr()
    with pytest.raises(MetastoreIncomplete, match="1 tables are not registered"):
        command._register(spark, settings)
    assert "shop.t: NameTaken: " in capsys.readouterr().out
    del at.metastore.held["shop", "t"]
    command._register(spark, settings)
    assert at.metastore.held["shop", "t"] == "/wh/shop/t"


def test_two_names_that_the_metastore_takes_for_one_keep_what_they_have_first() -> None:
    at = Scene(("shop", "Orders"))
    at.bring_up()
    at.tables.shapes["shop", "orders"] = shape("shop", "orders")
    found = at.bring_up()
    assert found.entries["shop", "Orders"].table == ("shop", "orders")
    assert found.entries["shop", "orders"].table == ("shop", distinct(("shop", "orders")))
    assert at.metastore.held["shop", "orders"] == "/wh/shop/%4Frders"


def test_an_unreachable_metastore_is_an_error_that_is_kept_until_it_answers() -> None:
    at = Scene(("shop", "t"))
    at.bring_up()
    at.metastore.is_away = True
    at.tables.shapes["shop", "u"] = shape("shop", "u")
    found = at.bring_up()
    assert "MetastoreUnreachable" in found.error
    assert set(found.entries) == {("shop", "t")}
    assert "Bring it back" in metastore_lines(found)[1]
    at.metastore.is_away = False
    found = at.bring_up()
    assert (found.error, set(found.entries)) == ("", {("shop", "t"), ("shop", "u")})


def test_only_columns_that_may_have_changed_are_read() -> None:
    at = Scene(("shop", "t"), ("shop", "u"), ("shop", "x"))
    at.metastore.held[("shop", "x")] = at.metastore.held[("shop", distinct(("shop", "x")))] = "/e"
    at.registrar.bring_up(())
    assert at.tables.read == [("shop", "t"), ("shop", "u"), ("shop", "x")]
    at.tables.read.clear()
    at.metastore.remove(("shop_current", "u"))
    at.tables.shapes["shop", "t"] = shape("shop", "t", "w")
    at.registrar.bring_up(())
    # What somebody else removed, and what failed before.
    assert at.tables.read == [("shop", "u"), ("shop", "x")]
    assert "`w`" not in at.metastore.views["shop_current", "t"]
    at.registrar.bring_up({("shop", "t")})
    assert "`w`" in at.metastore.views["shop_current", "t"]


def test_without_views_there_are_tables_alone() -> None:
    at = Scene(("shop", "t"), views="")
    at.bring_up()
    assert set(at.metastore.held) == {("shop", "t")}


def test_a_torn_note_is_no_obstacle() -> None:
    at = Scene(("shop", "t"))
    found = at.bring_up()
    at.notes.write(METASTORE, found.text()[:20])
    assert at.bring_up() == found


@pytest.mark.parametrize(
    ("name", "taken"), [("Orders", "orders"), ("a-b.c", "a_b_c"), ("日本", "__"), ("", "_")]
)
def test_names(name: str, taken: str) -> None:
    assert plain(name) == taken
    assert distinct(("shop", name)).startswith(f"{taken}_")


def test_the_view_of_a_log_repeats_each_image_as_often_as_it_stands() -> None:
    query = view_sql(shape("shop", "t", key=()), ("shop", "t"))
    assert "GROUP BY `id`, `v`, array_sort(map_entries(__unrepresentable))" in query
    assert "explode(sequence(1, __n))" in query
