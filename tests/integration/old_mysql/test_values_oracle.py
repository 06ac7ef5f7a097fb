"""Every type at its limits on the old series, in each row image: the decoded value equals SELECT's."""

from typing import Any

import pytest

from connectors.mysql.binlog.events import EventType
from connectors.mysql.rows.counter import row_count
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.old_mysql.families import in_words_of, known
from tests.integration.old_mysql.source import Row, rows, written
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.oracle import rows_of, same
from tests.steps import Rows

DATABASE = "oracle"
IMAGES = {"5.5": ("FULL",)}
CASES = [
    (series, image)
    for series in ("5.5", "5.6", "5.7", "8.0")
    for image in IMAGES.get(series, ("FULL", "MINIMAL", "NOBLOB"))
]
# JSON and geometries are none to the server here.
_BLOBS = ("text", "blob")


def filled(mysql: Mysql, series: str, family: str, table: str) -> list[str]:
    """Statements that make and fill a table, on whose server they can be run."""
    run(
        mysql,
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"DROP TABLE IF EXISTS {DATABASE}.{table}",
    )
    first, create, *inserts = statements_for(f"{DATABASE}.{table}", known(series, family))
    made = [first, f"{create} ROW_FORMAT=DYNAMIC", *inserts]
    return [in_words_of(series, statement) for statement in made]


def selected(mysql: Mysql, table: str) -> tuple[dict[int, dict[str, Any]], dict[str, str]]:
    with connected(mysql) as cursor:
        held = {row["id"]: row for row in rows_of(cursor, DATABASE, table)}
        cursor.execute(
            "SELECT column_name, data_type FROM information_schema.columns"
            f" WHERE table_schema = '{DATABASE}' AND table_name = '{table}'"
        )
        return held, {name: kind.lower() for name, kind in cursor.fetchall()}


def differences(image: dict[str, Any], held: dict[str, Any], kinds: dict[str, str]) -> list[Any]:
    return [
        (name, kinds[name], value, held[name])
        for name, value in image.items()
        if name != "id" and not same(value, held[name], kinds[name])
    ]


@pytest.mark.parametrize(("series", "image"), CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_decoded_row_is_what_the_server_selects(
    servers: Servers, series: str, image: str, family: str
) -> None:
    mysql, table = servers(series), f"{family}_{image.lower()}"
    one_session = [] if image == "FULL" else [f"SET SESSION binlog_row_image = '{image}'"]
    steps = written(mysql, *filled(mysql, series, family, table), *one_session)
    held, kinds = selected(mysql, table)
    inserted = list(rows(mysql, steps))
    changes = written(
        mysql,
        *one_session,
        f"UPDATE {DATABASE}.{table} SET id = id + 100",
        f"DELETE FROM {DATABASE}.{table}",
    )
    assert [row.after["id"] for row in inserted if row.after] == list(held)
    changed = list(rows(mysql, changes))
    for row in (*inserted, *changed):
        for one in (row.before, row.after):
            if one is not None:
                assert differences(one, held[one["id"] % 100], kinds) == []
    assert_images(changed, image, kinds)


def assert_images(changed: list[Row], image: str, kinds: dict[str, str]) -> None:
    """Each image holds the columns that its kind has."""
    plain = {name for name, kind in kinds.items() if not kind.endswith(_BLOBS)}
    before = {"FULL": set(kinds), "MINIMAL": {"id"}, "NOBLOB": plain}[image]
    for row in changed:
        assert row.before is not None
        assert set(row.before) == before
        assert row.after is None or set(row.after) == before


@pytest.mark.parametrize("series", ["5.5", "5.6", "5.7", "8.0"])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_counted_without_knowing_their_values(
    servers: Servers, series: str, family: str
) -> None:
    mysql, table = servers(series), f"counted_{family}"
    steps = written(
        mysql, *filled(mysql, series, family, table), f"UPDATE {DATABASE}.{table} SET id = id + 100"
    )
    found = [step for step in steps if isinstance(step, Rows)]
    counts = [row_count(step.table_map, step.event_type, step.body) for step in found]
    assert sum(counts) == len(list(rows(mysql, steps))) >= 2


@pytest.mark.parametrize(
    ("series", "option", "wanted"),
    [
        ("5.5", None, EventType.WRITE_ROWS_V1),
        ("5.6", "OFF", EventType.WRITE_ROWS),
        ("5.6", "ON", EventType.WRITE_ROWS_V1),
        ("5.7", "ON", EventType.WRITE_ROWS_V1),
        ("8.0", "ON", EventType.WRITE_ROWS_V1),
    ],
)
def test_rows_of_both_versions_of_events_are_read(
    servers: Servers, series: str, option: str | None, wanted: EventType
) -> None:
    mysql = servers(series)
    if option:
        run(mysql, f"SET GLOBAL log_bin_use_v1_row_events = {option}")
    try:
        steps = written(mysql, *filled(mysql, series, "integers", "versions"))
    finally:
        if option:
            run(mysql, "SET GLOBAL log_bin_use_v1_row_events = OFF")
    held, kinds = selected(mysql, "versions")
    assert {step.event_type for step in steps if isinstance(step, Rows)} == {wanted}
    found = [row.after for row in rows(mysql, steps) if row.after]
    assert [differences(row, held[row["id"]], kinds) for row in found] == [[]] * len(held)
