"""The rows that a transaction's statements have undone, and the names of savepoints."""

from __future__ import annotations

import pytest

from connectors.mysql.binlog.undone_rows import UndoneRows, savepoint_of


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SAVEPOINT A", "a"),
        ("SAVEPOINT `A b`", "a b"),
        ("SAVEPOINT `a``b`", "a`b"),
        ("SAVEPOINT ```x```", "`x`"),
        # As a server writes it for a session with ANSI_QUOTES.
        ('SAVEPOINT "A b"', "a b"),
        ('ROLLBACK TO "a""b"', 'a"b'),
        ("SAVEPOINT `to a`", "to a"),
        ("ROLLBACK TO SAVEPOINT a;", "a"),
        ("ROLLBACK WORK TO `a b`", "a b"),
        ("SAVEPOINT", "savepoint"),
    ],
)
def test_a_savepoint_has_one_name_however_it_is_quoted(sql: str, name: str) -> None:
    assert savepoint_of(sql) == name


def test_names_that_begin_alike_are_of_two_savepoints() -> None:
    rows = UndoneRows()
    for sql in ('SAVEPOINT "a b"', 'SAVEPOINT "a c"'):
        rows.count += 1
        rows.statement(sql)
    rows.count += 1
    rows.statement("ROLLBACK TO `a b`")
    assert [number in rows for number in range(3)] == [False, True, True]
    assert rows.is_known
