"""The definitions in real servers' row events, compared with information_schema."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Index, Session, Table
from connectors.mysql.rows.compiled import key_contradiction
from connectors.mysql.rows.decoder import WRITES
from connectors.mysql.schema.definition_check import completed_map, differences
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.ddl_tools.source import (
    LEVELS,
    collations,
    columns_before,
    map_of,
    recording_metadata,
    server_of,
    steps,
    table_of,
)
from tests.integration.mariadb.families import FAMILIES as MARIADB_FAMILIES
from tests.integration.old_mysql.families import in_words_of
from tests.integration.old_mysql.families import known as known_families
from tests.integration.old_mysql.source import charsets_of
from tests.integration.worker.families import FAMILIES, statements_for
from tests.steps import Rows, Statement

DATABASE = "witness"
MODE = "SET SESSION sql_mode = ''"

SHAPES = {
    "other_order": "a int, b int, c int, PRIMARY KEY (c, a)",
    "prefix": "a varchar(80), b varbinary(80), c int, PRIMARY KEY (b(10), c, a(5))",
    "no_key": "a int, b int, UNIQUE (a)",
    "promoted": "a int NOT NULL, b varchar(9) NOT NULL, c int, UNIQUE v (b(3)), UNIQUE n (c), UNIQUE u (b, a)",
    "with_blobs": "a int, b int, j text, PRIMARY KEY (a)",
    "several_promoted": "a int NOT NULL, b int NOT NULL, UNIQUE z (b), UNIQUE y (a), UNIQUE x (a, b)",
    "generated": "a int, v int AS (a + 1), s int AS (a + 2) STORED, PRIMARY KEY (a)",
    "quoted": "`a.b` int, `ключ` varchar(3) NOT NULL, e enum('it''s','A,b') NOT NULL, PRIMARY KEY (`a.b`)",
    "labels": r"e enum('\\','\n','\r','''','a,b','a'',''b','(',')','%','b /* c') NOT NULL,"
    r" s set('ü','中','\'')",
    "null_byte": r"e enum('a','\0')",
    "beyond": "e enum('😀','a?','??'), n int",
    "charsets": "e enum('ä','€') CHARACTER SET latin1, s set('中','文') CHARACTER SET gbk,"
    " u enum('ß','x') CHARACTER SET utf16, b enum('碁','功') CHARACTER SET big5,"
    " k set('ё','я') CHARACTER SET koi8r, n enum('a','b') BINARY, y enum('a','b') CHARACTER SET binary,"
    " t char(9) CHARACTER SET utf8, z varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, w text BINARY",
    "widths": "a int(5) unsigned zerofill, b bool, c float(7,3), d double(9,2) unsigned, e year, f bit(9),"
    " g char(0), h tinyint(3) zerofill, i decimal(7) zerofill, j numeric(65,30), k real, l serial",
    "many_texts": ", ".join(
        f"c{n} varchar(9) CHARACTER SET {'latin1' if n % 7 else 'utf8mb4'}" for n in range(60)
    ),
    "nothing_signed": "a varchar(3), b date, p point",
    "expression": "a int, b int, PRIMARY KEY (a), INDEX i ((a + b), b, (a * b)), INDEX ((b + 1))",
    "hidden": "a int, b int INVISIBLE DEFAULT 7, name varchar(9), PRIMARY KEY (a)",
    "several_valued": "a int, j json, INDEX z ((CAST(j AS UNSIGNED ARRAY)))",
    "kept_key": "a int",
    "versioned": "a int, b int, PRIMARY KEY (a)) WITH SYSTEM VERSIONING -- (",
    "versioned_without_key": "a int, b text) WITH SYSTEM VERSIONING -- (",
    "versioned_unique": "a int NOT NULL, b text, UNIQUE (a)) WITH SYSTEM VERSIONING -- (",
    "versioned_explicitly": "a int PRIMARY KEY, s timestamp(6) GENERATED ALWAYS AS ROW START,"
    " e timestamp(6) GENERATED ALWAYS AS ROW END, b int, PERIOD FOR SYSTEM_TIME (s, e))"
    " WITH SYSTEM VERSIONING -- (",
    "hashed": "a int, t text, UNIQUE (t)",
    "hashed_not_null": "a int, t text NOT NULL, v varchar(4000) NOT NULL, UNIQUE (v), UNIQUE (t)",
    "hashed_and_versioned": "a int PRIMARY KEY, t text, UNIQUE (t)) WITH SYSTEM VERSIONING -- (",
    "period": "a int, d date NOT NULL, e date NOT NULL, PERIOD FOR p (d, e), UNIQUE (a, p WITHOUT OVERLAPS)",
    "addresses": "u uuid, i inet6 NOT NULL, j inet4",
    "mariadb_vector": "a int, v vector(3) NOT NULL",
}  # fmt: skip
_NEEDS = {
    "expression": ("9.7", "8.0"),
    "hidden": ("9.7", "mariadb-10.11", "mariadb-11.8"),
    "several_valued": ("9.7",),
    "kept_key": ("9.7",),
    # MariaDB takes the labels after it for those of the next column.
    "null_byte": ("9.7", "8.0", "5.7", "5.6"),
    "mariadb_vector": ("mariadb-11.8",),
    "generated": ("9.7", "8.0", "5.7", "mariadb-10.11", "mariadb-11.8"),
    **dict.fromkeys(
        ("versioned", "versioned_without_key", "versioned_unique", "versioned_explicitly", "hashed",
         "hashed_not_null", "hashed_and_versioned", "period", "addresses"),
        ("mariadb-10.11", "mariadb-11.8"),
    ),
}  # fmt: skip
_ROWS = {
    "period": "(d, e) VALUES ('2026-01-01', '2026-01-02')",
    "mariadb_vector": "VALUES (1, x'000000000000000000000000')",
}
CASES = [(name, level) for name, levels in LEVELS.items() for level in levels]


@pytest.fixture
def mysql(servers: Servers, name: str) -> Mysql:
    server = servers(name)
    run(server, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    return server


def families(name: str) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    if name.startswith("mariadb"):
        yield from ((family, list(columns())) for family, columns in MARIADB_FAMILIES.items())
    elif name == "9.7":
        yield from ((family, list(columns())) for family, columns in FAMILIES.items())
    else:
        yield from ((family, known_families(name, family)) for family in FAMILIES)


def shapes(name: str) -> Iterator[tuple[str, list[str]]]:
    for shape, columns in SHAPES.items():
        if name in _NEEDS.get(shape, (name,)):
            table = f"{DATABASE}.{shape}"
            generated = "SET SESSION sql_generate_invisible_primary_key = ON"
            yield (
                shape,
                [
                    MODE,
                    *([generated] if shape == "kept_key" else []),
                    f"CREATE TABLE {table} ({columns})",
                    f"INSERT INTO {table} {_ROWS.get(shape, '() VALUES ()')}",
                ],
            )


def described(mysql: Mysql, table_map: TableMap, table: Table) -> list[str]:
    """The differences of the two; missing parts can be completed exactly if there are none."""
    charsets, server = charsets_of(mysql), server_of(mysql)
    found = differences(table_map, table, charsets, server=server)
    return found + collations(table_map, table, charsets)


@pytest.mark.parametrize(("name", "level"), CASES)
def test_rows_of_every_type_agree_with_their_definition(
    mysql: Mysql, name: str, level: str
) -> None:
    found = {}
    with recording_metadata(mysql, level):
        for family, columns in families(name):
            statements = statements_for(f"{DATABASE}.{family}", columns)[:3]
            mapped = map_of(mysql, *(in_words_of(name, one) for one in statements))
            found[family] = described(mysql, mapped, table_of(mysql, DATABASE, family))
    assert [(name, each) for name, each in found.items() if each] == []


@pytest.mark.parametrize(("name", "level"), CASES)
def test_rows_of_every_shape_agree_with_their_definition(
    mysql: Mysql, name: str, level: str
) -> None:
    found = {}
    with recording_metadata(mysql, level):
        for shape, statements in shapes(name):
            mapped = map_of(mysql, *statements)
            found[shape] = described(mysql, mapped, table_of(mysql, DATABASE, shape))
    assert [(name, each) for name, each in found.items() if each] == []


@pytest.mark.parametrize(
    ("name", "level"), [(name, level) for name, level in CASES if level in ("MINIMAL", "NO_LOG")]
)
def test_a_map_with_less_metadata_is_completed_to_what_full_metadata_says(
    mysql: Mysql, name: str, level: str
) -> None:
    charsets, server = charsets_of(mysql), server_of(mysql)
    made = dict(shapes(name)) | {
        family: [
            in_words_of(name, one) for one in statements_for(f"{DATABASE}.{family}", columns)[:3]
        ]
        for family, columns in families(name)
    }
    # Their labels cannot be read from information_schema.
    del made["beyond"]
    for table, statements in made.items():
        with recording_metadata(mysql, level):
            bare = map_of(mysql, *statements)
        with recording_metadata(mysql, "FULL"):
            full = map_of(mysql, f"DELETE FROM {DATABASE}.{table}")
        definition = table_of(mysql, DATABASE, table)
        found = completed_map(bare, definition, charsets, server=server)
        assert comparable(found, full) == comparable(full, full)


def comparable(table_map: TableMap, full: TableMap) -> TableMap:
    """Without the optional parts of full metadata, and those that no value depends on."""
    plain = {"visible": None, "geometry_type": None, "dimensions": None}
    columns = [
        replace(
            column,
            **plain,  # type: ignore[arg-type]
            unsigned=None if result.unsigned is None or column.type == _YEAR else column.unsigned,
            collation=None if column.type == _GEOMETRY else column.collation,
        )
        for column, result in zip(table_map.columns, full.columns, strict=True)
    ]
    return replace(table_map, columns=tuple(columns), table_id=0)


_YEAR, _GEOMETRY = 13, 255


@pytest.mark.parametrize(("name", "level"), [(name, levels[0]) for name, levels in LEVELS.items()])
def test_rows_of_every_shape_agree_with_the_statement_that_made_the_table(
    mysql: Mysql, name: str, level: str
) -> None:
    charsets, server = charsets_of(mysql), server_of(mysql)
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@collation_server")
        (collation,) = cursor.fetchone()
    found = {}
    with recording_metadata(mysql, level):
        for shape, statements in shapes(name):
            if shape == "null_byte":
                continue
            catalog = Catalog(server)
            catalog.apply(f"CREATE DATABASE {DATABASE} COLLATE {collation}", Session())
            for step in steps(mysql, *statements):
                if isinstance(step, Statement):
                    query = step.query
                    session = session_of(
                        query.status,
                        database=query.database,
                        thread=query.thread,
                        charsets=charsets,
                    )
                    catalog.apply(query.sql, session)
                elif isinstance(step, Rows):
                    made = catalog[DATABASE, shape]
                    found[shape] = differences(step.table_map, made, charsets, server=server)
    assert len(found) > 10
    assert [(name, each) for name, each in found.items() if each] == []


def test_labels_that_the_server_cannot_print_are_those_of_their_statement(servers: Servers) -> None:
    mysql, name = servers("9.7"), f"{DATABASE}.unprinted"
    run(mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    charsets, server = charsets_of(mysql), server_of(mysql)
    catalog = Catalog(server)
    catalog.apply(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4", Session())
    changes = (
        f"CREATE TABLE {name} (a int, e enum('😀','a?','??') NOT NULL, s set('?','🎉b')) CHARACTER SET utf8mb4",
        f"ALTER TABLE {name} MODIFY e enum('😀','a?','??','😁') NOT NULL, RENAME COLUMN s TO t",
        f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ADD f enum('?') DEFAULT '?'",
    )
    for change in changes:
        write = f"INSERT INTO {name} (a) VALUES (1)"
        with recording_metadata(mysql, "MINIMAL"):
            found = steps(mysql, change, write)
        with recording_metadata(mysql, "FULL"):
            full = map_of(mysql, write)
        for step in found:
            if isinstance(step, Statement):
                query = step.query
                catalog.apply(
                    query.sql,
                    session_of(query.status, database=DATABASE, thread=1, charsets=charsets),
                )
        (bare,) = [step.table_map for step in found if isinstance(step, Rows)]
        made = catalog[DATABASE, "unprinted"]
        table = completed_map(bare, made, charsets, server=server)
        assert [one.labels for one in table.columns] == [one.labels for one in full.columns]
        assert differences(full, made, charsets, server=server) == []
        # Of what was there before anybody read statements, nobody knows more than the server prints.
        with pytest.raises(UnsupportedEvent, match="prints a label"):
            completed_map(bare, table_of(mysql, DATABASE, "unprinted"), charsets, server=server)


PLANTED = (
    "a int unsigned, b int unsigned, c varchar(40) CHARACTER SET latin1 NOT NULL, d enum('x','y'),"
    " e decimal(9,2), f datetime(3), g bigint NOT NULL, h text, PRIMARY KEY (g)"
)


def changed(column: str, /, **more: object) -> Callable[[Table], Table]:
    def change(table: Table) -> Table:
        columns = (replace(c, **more) if c.name == column else c for c in table.columns)  # type: ignore[arg-type]
        return replace(table, columns=tuple(columns))

    return change


def swapped(table: Table) -> Table:
    first, second, *rest = table.columns
    return replace(table, columns=(second, first, *rest))


def without_last(table: Table) -> Table:
    return replace(table, columns=table.columns[:-1])


def with_key(*names: str) -> Callable[[Table], Table]:
    indexes = (Index(name="PRIMARY", columns=names, unique=True),) if names else ()
    return lambda table: replace(table, indexes=indexes)


# What is planted, and how little metadata shows it: types and NULLs always.
FAULTS: dict[str, tuple[Callable[[Table], Table], str]] = {
    "width": (changed("g", type="int"), ""),
    "length": (changed("c", type="varchar(41)"), ""),
    "digits": (changed("e", type="decimal(9,3)"), ""),
    "fraction": (changed("f", type="datetime"), ""),
    "family": (changed("d", type="set('x','y')"), ""),
    "blob": (changed("h", type="mediumtext"), ""),
    "nullability": (changed("c", nullable=True), ""),
    "missing": (without_last, ""),
    "sign": (changed("a", type="int"), "MINIMAL"),
    "charset": (changed("h", charset="latin1", collation="latin1_swedish_ci"), "MINIMAL"),
    "bytes": (changed("h", type="blob", charset=None, collation=None), "MINIMAL"),
    "name": (changed("a", name="z"), "FULL"),
    "order": (swapped, "FULL"),
    "label": (changed("d", type="enum('x','z')"), "FULL"),
    "labels": (changed("d", type="enum('x','y','z')"), "FULL"),
    "key": (with_key("a"), "FULL"),
    "no_key": (with_key(), "FULL"),
}
_ORDER = ("", "NO_LOG", "MINIMAL", "FULL")


@pytest.mark.parametrize(("name", "level"), CASES)
def test_what_was_planted_is_found_as_far_as_the_metadata_show(
    mysql: Mysql, name: str, level: str
) -> None:
    assert server_of(mysql).mariadb == name.startswith("mariadb")
    with recording_metadata(mysql, level):
        mapped = map_of(
            mysql,
            MODE,
            f"CREATE TABLE {DATABASE}.planted ({PLANTED}) CHARACTER SET utf8mb4",
            f"INSERT INTO {DATABASE}.planted (g) VALUES (1)",
        )
    table = table_of(mysql, DATABASE, "planted")
    assert described(mysql, mapped, table) == []
    charsets, server = charsets_of(mysql), server_of(mysql)
    found = {
        fault
        for fault, (plant, _) in FAULTS.items()
        if differences(mapped, plant(table), charsets, server=server)
    }
    known = _ORDER.index(level)
    assert found == {
        fault for fault, (_, least) in FAULTS.items() if _ORDER.index(least) <= max(known, 0)
    }


PARTIAL = {
    "9.7": ["other_order", "promoted", "with_blobs", "with_blobs"],
    "mariadb-11.8": ["other_order", "promoted", "with_blobs", "with_blobs", "versioned"],
}
"""The tables whose images before a change lack columns, once for each such image."""
_DELETED = (
    "other_order", "prefix", "no_key", "promoted", "with_blobs", "versioned", "hashed_not_null",
    "several_valued",
)  # fmt: skip


@pytest.mark.parametrize("name", ["9.7", "mariadb-11.8"])
def test_images_before_a_change_hold_the_key_by_which_rows_are_published(
    mysql: Mysql, name: str
) -> None:
    faults, partial, caught = list[tuple[str, str]](), list[str](), list[str]()
    with recording_metadata(mysql, "MINIMAL"):
        for shape, statements in (one for one in shapes(name) if one[0] in _DELETED):
            table = f"{DATABASE}.{shape}"
            more = [
                "SET SESSION binlog_row_image = NOBLOB",
                f"DELETE FROM {table}",
                *statements[-1:],
                "SET SESSION binlog_row_image = MINIMAL",
                f"DELETE FROM {table}",
            ]
            for step in steps(mysql, *statements, *more):
                if not isinstance(step, Rows) or step.event_type in WRITES:
                    continue
                present, mapped, hidden = columns_before(mysql, DATABASE, shape, step)
                fault = key_contradiction(mapped, present, hidden=hidden)
                faults += [(shape, fault)] if fault else []
                shown = [there for n, there in enumerate(present) if n not in hidden]
                partial += [] if all(shown) else [shape]
                wrong = replace(mapped, primary_key=(len(shown) - 1,))
                caught += [shape] if key_contradiction(wrong, present, hidden=hidden) else []
    assert faults == []
    # Without a key, or with all columns in it, an image is whole; NOBLOB leaves out only what is a blob.
    assert partial == PARTIAL[name]
    assert caught == partial


def test_another_collation_of_the_same_character_set_is_distinguished(servers: Servers) -> None:
    mysql = servers("9.7")
    run(mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    mapped = map_of(
        mysql,
        f"CREATE TABLE {DATABASE}.ordered (a varchar(9) COLLATE utf8mb4_bin)",
        f"INSERT INTO {DATABASE}.ordered VALUES ('a')",
    )
    table = table_of(mysql, DATABASE, "ordered")
    other = changed("a", collation="utf8mb4_0900_ai_ci")(table)
    charsets, server = charsets_of(mysql), server_of(mysql)
    assert differences(mapped, other, charsets, server=server) == []
    assert collations(mapped, table, charsets) == []
    assert collations(mapped, other, charsets) == [
        "column 'a' has collation utf8mb4_bin in its rows, utf8mb4_0900_ai_ci defined"
    ]


JOINED = {
    "left": "UPDATE {a} a LEFT JOIN {b} b ON a.id = b.id SET a.t = 'x', b.v = 2",
    "right": "UPDATE {b} b RIGHT JOIN {a} a ON a.id = b.id SET a.t = 'y', b.v = 3",
    "nested": "UPDATE {a} a LEFT JOIN ({b} b JOIN {a} c ON b.id = c.id) ON a.id = b.id SET a.t = 'z', b.v = 4",
    "deleted": "DELETE {b} FROM {a} LEFT JOIN {b} ON a.id = b.id",
}
"""Statements that a server makes an outer join of; ``b`` is the table that need not have a row."""


@pytest.mark.parametrize(("name", "level"), CASES)
def test_rows_of_an_outer_join_agree_with_their_definition(
    mysql: Mysql, name: str, level: str
) -> None:
    a, b = f"{DATABASE}.a", f"{DATABASE}.b"
    columns = "id int NOT NULL PRIMARY KEY, t varchar(9) NOT NULL, v int NOT NULL, w int"
    more = " WITH SYSTEM VERSIONING" if name.startswith("mariadb") else ""
    run(mysql, f"CREATE TABLE {a} ({columns})", f"CREATE TABLE {b} ({columns}){more}")
    run(mysql, f"INSERT INTO {a} VALUES (1, '', 1, 1)", f"INSERT INTO {b} VALUES (1, '', 1, 1)")
    definition = table_of(mysql, DATABASE, "b")
    charsets, server = charsets_of(mysql), server_of(mysql)
    with recording_metadata(mysql, level):
        full = map_of(mysql, f"UPDATE {b} SET w = 7")
        for form, statement in JOINED.items():
            found = [
                step.table_map
                for step in steps(mysql, statement.format(a=a, b=b))
                if isinstance(step, Rows) and step.table_map.table == "b"
            ]
            assert found, form
            for mapped in found:
                assert described(mysql, mapped, definition) == [], form
                completed = completed_map(mapped, definition, charsets, server=server)
                plain = completed_map(full, definition, charsets, server=server)
                assert replace(completed, table_id=0) == replace(plain, table_id=0)
