"""Settings of sources: one or several, in their order, and their effect in a plan."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.settings.model import Settings
from app.worker.wiring import destination_plan, topic_plans
from connectors.mysql.lookup.start import Earliest, Latest

ONE = {"host": "db-1", "user": "u"}
TWO = {"host": "db-2", "user": "u"}


def settings(monkeypatch: pytest.MonkeyPatch, **destination: Any) -> Settings:
    monkeypatch.setenv("AQUEDUCT_CONFIG", "/nowhere/aqueduct.yaml")
    given = {"server_id": 5, **destination}
    return Settings.model_validate(
        {"prefix": "aq", "kafka": {"bootstrap_servers": "k:9092"}, "destinations": {"shop": given}}
    )


def plan(monkeypatch: pytest.MonkeyPatch, **destination: Any) -> Any:
    given = settings(monkeypatch, **destination)
    return destination_plan(given, "shop", {}, topic_plans(given))


def test_one_source_is_a_list_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(monkeypatch, source=ONE)
    assert [str(one.address) for one in made.sources] == ["db-1:3306"]
    assert made.sources[0].address == made.address
    assert not made.failover.fingerprints


def test_several_keep_their_order_and_have_starts_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = plan(monkeypatch, sources=[TWO, {**ONE, "start": "earliest"}])
    assert [str(one.address) for one in made.sources] == ["db-2:3306", "db-1:3306"]
    assert [one.start for one in made.sources] == [Latest(), Earliest()]
    assert str(made.address) == "db-2:3306"
    assert made.failover.fingerprints


def test_fingerprints_can_be_kept_for_one_address_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(monkeypatch, source=ONE, failover={"fingerprints": "on"}).failover.fingerprints


def test_the_heartbeat_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    failover = {"heartbeat": {"sql": "UPDATE beat SET at = NOW()", "retries": 7}}
    made = plan(monkeypatch, source=ONE, failover=failover).failover
    assert (made.heartbeat, made.retries) == ("UPDATE beat SET at = NOW()", 7)
    off = {"heartbeat": {"enabled": False}}
    assert plan(monkeypatch, source=ONE, failover=off).failover.heartbeat is None


@pytest.mark.parametrize(
    ("destination", "described"),
    [
        ({}, "give source, or sources"),
        ({"source": ONE, "sources": [TWO]}, "not both"),
        ({"sources": [ONE, ONE]}, "must be different servers"),
        ({"source": ONE, "failover": {"heartbeat": {"sql": "DROP TABLE t"}}}, "begins with SELECT"),
        ({"source": ONE, "failover": {"heartbeat": {"sql": " "}}}, "begins with SELECT"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, destination: dict[str, Any], described: str
) -> None:
    with pytest.raises(ValidationError, match=described):
        settings(monkeypatch, **destination)


def test_two_destinations_with_one_number_at_any_of_their_sources_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = settings(monkeypatch, sources=[ONE, TWO]).model_dump()
    shop = {"sources": [ONE, TWO], "server_id": 5}
    given["destinations"] = {"shop": shop, "other": {"source": TWO, "server_id": 5}}
    with pytest.raises(ValidationError, match="db-2:3306; each needs its own"):
        Settings.model_validate(given)
