"""The kind of a statement by its first words, with any comments around them."""

import pytest

from connectors.mysql.binlog.statement_kind import (
    Kind,
    kind_of,
    shortened,
    truncated_table,
    type_of,
)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("BEGIN", Kind.BEGIN),
        ("COMMIT", Kind.COMMIT),
        ("ROLLBACK", Kind.ROLLBACK),
        ("ROLLBACK TO `s`", Kind.SAVEPOINT),
        ("/* a */ rollback /* b */ to s", Kind.SAVEPOINT),
        ("SAVEPOINT `s`", Kind.SAVEPOINT),
        ("RELEASE SAVEPOINT s", Kind.SAVEPOINT),
        ("XA START 'x'", Kind.XA),
        ("create table t (id int)", Kind.DDL),
        ("-- one\n# two\n/* three */ ALTER TABLE t ADD c int", Kind.DDL),
        ("--\nALTER TABLE t ADD c int", Kind.DDL),
        ("/*!50000 DROP */ TABLE t", Kind.DDL),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", Kind.DDL),
        ("TRUNCATE t", Kind.TRUNCATE),
        ("CREATE USER 'u'@'%' IDENTIFIED BY 'secret'", Kind.HARMLESS),
        ("ALTER USER 'u'@'%' IDENTIFIED BY 'secret'", Kind.HARMLESS),
        ("CREATE OR REPLACE USER u IDENTIFIED BY 'secret'", Kind.HARMLESS),
        (
            "create /* a */ or replace server s FOREIGN DATA WRAPPER m OPTIONS (PASSWORD 'p')",
            Kind.HARMLESS,
        ),
        ("CREATE OR REPLACE TABLE role (id int)", Kind.DDL),
        ("SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE t", Kind.TRUNCATE),
        (
            "set statement a='x for y', b=\"it''s for\" /* for */ FOR alter table t add b int",
            Kind.DDL,
        ),
        ("SET STATEMENT a = 1 FOR SET STATEMENT b = 2 FOR INSERT INTO t VALUES (1)", Kind.CHANGE),
        ("SET STATEMENT a = 1 FOR CREATE OR REPLACE USER u IDENTIFIED BY 'p'", Kind.HARMLESS),
        ("SET STATEMENT a = 'for'", Kind.UNKNOWN),
        ("SET PASSWORD FOR u = 'x'", Kind.HARMLESS),
        ("GRANT SELECT ON *.* TO 'u'@'%'", Kind.HARMLESS),
        ("FLUSH TABLES", Kind.HARMLESS),
        ("INSERT INTO t VALUES (1)", Kind.CHANGE),
        ("/*!50000 INSERT */ INTO t VALUES (1)", Kind.CHANGE),
        ("/*M!100000 INSERT */ INTO t VALUES (1)", Kind.CHANGE),
        ("/*M!999999\\- enable the sandbox mode */ CREATE TABLE t (a int)", Kind.DDL),
        ("/*M! /* x */ ALTER TABLE t ADD a int", Kind.DDL),
        ("/*M! */ FROBNICATE", Kind.UNKNOWN),
        ("--\nDELETE FROM t", Kind.CHANGE),
        ("WITH c AS (SELECT 1) DELETE FROM t", Kind.CHANGE),
        ("LOAD DATA INFILE 'x' INTO TABLE t", Kind.CHANGE),
        ("FROBNICATE TABLE t", Kind.UNKNOWN),
        ("", Kind.UNKNOWN),
        ("/* only a comment */", Kind.UNKNOWN),
    ],
)
def test_a_statement_is_of_the_kind_its_first_words_say(sql: str, kind: Kind) -> None:
    assert kind_of(sql) is kind


def test_the_type_of_a_statement_is_its_first_keyword() -> None:
    assert type_of("/* x */ alter table t") == "ALTER"
    assert type_of("SET STATEMENT a = 1 FOR alter table t") == "ALTER"


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("TRUNCATE t", ("shop", "t")),
        ("truncate table t", ("shop", "t")),
        ("TRUNCATE TABLE`t`", ("shop", "t")),
        ("TRUNCATE TABLE /* c */ t", ("shop", "t")),
        ("TRUNCATE /* c */ TABLE -- d\n t;", ("shop", "t")),
        ("TRUNCATE TABLE `a.b`.`c``d`", ("a.b", "c`d")),
        ("TRUNCATE TABLE other . t /* by hand */", ("other", "t")),
        ("TRUNCATE `table`", ("shop", "table")),
        ("TRUNCATE TABLE `table`", ("shop", "table")),
        ("TRUNCATE TABLE ключ", ("shop", "ключ")),
        ("TRUNCATE TABLE t NOWAIT", ("shop", "t")),
        ("TRUNCATE t wait 5;", ("shop", "t")),
        ("TRUNCATE a.t WAIT 5", ("a", "t")),
        ("TRUNCATE nowait", ("shop", "nowait")),
        ('TRUNCATE "t"', ("shop", "t")),
        ('TRUNCATE TABLE "a.b"."c""\\d"', ("a.b", 'c"\\d')),
        ("TRUNCATE `a\U0001f600`.\U0001f600b", ("a?", "?b")),
        ("TRUNCATE a.nowait", ("a", "nowait")),
        ("SET STATEMENT a = 1 FOR TRUNCATE TABLE a.t NOWAIT", ("a", "t")),
    ],
)
def test_a_truncated_table_is_reported_by_the_statements_own_names(
    sql: str, table: tuple[str, str]
) -> None:
    assert truncated_table(sql, "shop") == table


@pytest.mark.parametrize(
    "sql", ["TRUNCATE", "TRUNCATE TABLE", "TRUNCATE TABLE a.b.c", "TRUNCATE TABLE a b"]
)
def test_a_truncate_that_is_not_understood_names_no_table(sql: str) -> None:
    assert truncated_table(sql, "shop") is None


def test_a_truncate_without_any_database_names_no_table() -> None:
    assert truncated_table("TRUNCATE TABLE t", None) is None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CALL p('secret')", "CALL p …"),
        ("SET @a=15", "SET @a …"),
        ("FROBNICATE t1 15", "FROBNICATE t1 …"),
        ("FROBNICATE the whole table", "FROBNICATE the whole …"),
        ("FROBNICATE /* secret */ t", "FROBNICATE …"),
    ],
)
def test_a_statement_in_a_message_ends_before_what_may_be_data(sql: str, expected: str) -> None:
    assert shortened(sql) == expected
