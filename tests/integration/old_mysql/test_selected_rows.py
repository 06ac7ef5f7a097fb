"""Rows of the old series are the same whether they come from the binlog or from SELECT."""

import pytest

from connectors.errors import SnapshotUnsupported
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import ask, run
from tests.integration.old_mysql.families import in_words_of, known
from tests.integration.old_mysql.source import rows, written
from tests.integration.snapshot.both import definition_of, known_facts, selected
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.test_json_oracle import DOCUMENTS

DATABASE = "snapshot"


@pytest.mark.parametrize("series", ["5.5", "5.6", "5.7", "8.0"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_at_its_limits(servers: Servers, series: str, family: str) -> None:
    mysql = servers(series)
    run(
        mysql,
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"DROP TABLE IF EXISTS {DATABASE}.{family}",
    )
    columns = known(series, family)
    if series == "5.7":
        columns = [one for one in columns if one[0] != "json"]
    first, create, *inserts = statements_for(f"{DATABASE}.{family}", columns)
    made = [first, f"{create} ROW_FORMAT=DYNAMIC", *inserts]
    assert_both_ways(mysql, family, *(in_words_of(series, statement) for statement in made))


@pytest.mark.parametrize("series", ["8.0"])
def test_documents(servers: Servers, series: str) -> None:
    mysql = servers(series)
    run(
        mysql,
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"DROP TABLE IF EXISTS {DATABASE}.documents, {DATABASE}.numbers",
        f"CREATE TABLE {DATABASE}.numbers (n INT PRIMARY KEY)",
        f"INSERT INTO {DATABASE}.numbers VALUES (1), (2), (3)",
    )
    # YEAR in a document is a number since 9.0.
    documents = [one for one in DOCUMENTS if "AS YEAR" not in one]
    assert_both_ways(
        mysql,
        "documents",
        f"USE {DATABASE}",
        "CREATE TABLE documents (id INT PRIMARY KEY, j JSON)",
        *(f"INSERT INTO documents VALUES ({n}, {one})" for n, one in enumerate(documents)),
    )


def test_documents_without_points_are_refused_by_name(servers: Servers) -> None:
    """As the text of 1.0 and of 1 is the same, which it is not in the binlog."""
    mysql = servers("5.7")
    run(
        mysql,
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"DROP TABLE IF EXISTS {DATABASE}.pointless",
        f"CREATE TABLE {DATABASE}.pointless (id INT PRIMARY KEY, j JSON)",
        f"INSERT INTO {DATABASE}.pointless VALUES (1, '[1.0, 1]')",
    )
    assert ask(mysql, f"SELECT CAST(j AS CHAR) FROM {DATABASE}.pointless") == (("[1, 1]",),)
    with pytest.raises(SnapshotUnsupported, match=r"column 'j' .*\[table=snapshot\.pointless\]"):
        selected(mysql, (DATABASE, "pointless"))


def assert_both_ways(mysql: Mysql, table: str, *statements: str) -> None:
    """The rows that the statements write are alike."""
    name = (DATABASE, table)
    steps = written(mysql, *statements)
    columns = [one.name for one in definition_of(mysql, name, known_facts(mysql)).columns]
    ours = [dict(zip(columns, row.image, strict=True)) for row in selected(mysql, name)]
    theirs = [row.after for row in rows(mysql, steps)]
    assert ours
    # By their text, as -0.0 equals 0.0.
    assert list(map(repr, ours)) == list(map(repr, theirs))
