"""The routes of records and of changes, by the boundaries of the mapping's versions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.audit.change_store import Store
from app.audit.routes_in_force import RoutesInForce, Stretch
from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def routes(topic: str, more: str = "") -> Routes:
    return Routes(prefix="p", mapping=from_yaml(f"tables: {{t: {{topic: {topic}{more}}}}}"))


A, B, C = routes("a"), routes("b", ", ddl: [alter]"), routes("c", ", black: 'shop[.]t'")


@pytest.fixture
def store() -> Iterator[Store]:
    """Transactions by rank: 1 to 4 with GTIDs, 5 without."""
    with Store() as made:
        for number in range(1, 5):
            made.begin(f"{SERVER}:{number}", "binlog.000001", number * 100)
        made.begin(f"{SERVER}:binlog.000001:500", "binlog.000001", 500)
        made.seal()
        yield made


def in_force(*positions: str) -> RoutesInForce:
    bounds = zip((A, B, C), (0, 10, 20), positions, strict=True)
    return RoutesInForce(
        [Stretch(routes=one, seq=seq, position=position) for one, seq, position in bounds]
    )


def test_a_record_is_of_the_version_in_force_for_its_number() -> None:
    found = in_force("", f"{SERVER}:1-2", f"{SERVER}:1-3")
    assert [found.of_number(seq) for seq in (1, 10, 11, 20, 21)] == [A, A, B, B, C]


def test_of_versions_without_a_record_between_the_last_one_counts() -> None:
    at = f"{SERVER}:1"
    both = [Stretch(routes=one, seq=10, position=at) for one in (A, B, C)]
    found = RoutesInForce(both)
    assert [found.of_number(seq) for seq in (10, 11)] == [A, C]


@pytest.mark.parametrize(
    "positions",
    [
        ("", f"{SERVER}:1", f"{SERVER}:1-3"),
        ("binlog.000001:4", "binlog.000001:200", "binlog.000001:400"),
    ],
)
def test_a_change_is_of_the_version_in_force_at_its_transaction(
    store: Store, positions: tuple[str, str, str]
) -> None:
    found = in_force(*positions)
    assert [found.of_transaction(store, rank) for rank in (1, 2, 3, 4)] == [A, B, B, C]
    assert list(found.since(store, 2)) == [B, C]


def test_a_transaction_without_a_gtid_precedes_versions_of_a_server_that_has_them(
    store: Store,
) -> None:
    assert in_force("", f"{SERVER}:1", f"{SERVER}:1-3").of_transaction(store, 5) == A


def test_a_table_is_captured_if_any_version_publishes_it() -> None:
    found = in_force("", "", "")
    assert C.of(("shop", "t")) is None
    assert found.captures("shop", "t")
    assert "drop" in found.omitted_statements


def test_a_version_that_cannot_be_read_is_an_error_for_what_it_published_alone(
    store: Store,
) -> None:
    gone = MappingError("version 1 is gone")
    found = RoutesInForce(
        [Stretch(routes=gone), Stretch(routes=B, seq=10, position=f"{SERVER}:1-2")]
    )
    assert found.of_number(11) == B
    assert found.of_transaction(store, 3) == B
    assert found.captures("shop", "t")
    with pytest.raises(MappingError, match="version 1 is gone"):
        found.of_number(10)
    with pytest.raises(MappingError, match="version 1 is gone"):
        found.of_transaction(store, 2)
