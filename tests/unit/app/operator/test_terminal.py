"""A question before what cannot be undone."""

from __future__ import annotations

import io

import pytest

from app.operator.terminal import ask_for_name
from connectors.errors import NotConfirmed


class Terminal(io.StringIO):
    """Standard input with an operator at it."""

    def isatty(self) -> bool:
        return True


def test_the_name_itself_confirms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("mails\n"))
    ask_for_name("mails", "the group mails moves", group="mails")
    assert capsys.readouterr().err == "the group mails moves.\nType 'mails' to continue: "


@pytest.mark.parametrize("typed", ["mail\n", "y\n", "\n", ""])
def test_nothing_else_confirms(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(NotConfirmed, match="the group mails moves"):
        ask_for_name("mails", "the group mails moves", group="mails")


def test_without_a_terminal_the_option_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("mails\n"))
    with pytest.raises(NotConfirmed) as caught:
        ask_for_name("mails", "it moves", remedy="Add --yes.", group="mails")
    assert caught.value.advice == "Add --yes."
