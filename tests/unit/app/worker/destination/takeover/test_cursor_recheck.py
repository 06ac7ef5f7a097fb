"""A cursor is proven again once, before the first of a run is published."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination.takeover import cursor_verification
from app.worker.destination.takeover.cursor_verification import CursorRecheck, CursorVerification
from connectors.errors import SourceLost, SourceReset
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from tables.state.cursor import Cursor

ADDRESS = SourceAddress(host="h", port=3306, user="u", password="", server_id=5, replica_uuid="a-b")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers queried; each next one answers with the next of these names."""
    names: list[str] = []

    def facts(_: SourceAddress) -> Any:
        names.append("u-1")
        return SimpleNamespace(server_uuid=names[0])

    monkeypatch.setattr(cursor_verification, "read_facts", facts)
    monkeypatch.setattr(cursor_verification, "check", lambda *_: None)
    monkeypatch.setattr(CursorVerification, "at_home", lambda *_: None)
    return names


def again() -> CursorRecheck:
    offset = SourceOffset(server_uuid="u-1", coordinates=Coordinates("b.000001", 4))
    cursor = Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)
    return CursorRecheck(cursor=cursor, address=ADDRESS)


async def test_the_server_is_asked_for_the_first_piece_alone(asked: list[str]) -> None:
    proving = again()
    await proving.once()
    await proving.once()
    assert asked == ["u-1"]


async def test_another_server_is_not_published_from(asked: list[str]) -> None:
    asked.append("u-2")
    with pytest.raises(SourceLost, match="server u-2 answers there now, and u-1 did before"):
        await again().once()


async def test_what_is_refused_once_is_asked_again(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise SourceReset("begun again")

    proving = again()
    with monkeypatch.context() as patch:
        patch.setattr(CursorVerification, "at_home", cast(Any, refused))
        with pytest.raises(SourceReset):
            await proving.once()
    await proving.once()
    assert len(asked) == 2
