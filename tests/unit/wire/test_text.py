"""Text of one line, times, and tracebacks."""

from wire.text import printed, traceback_text, utc, utc_seconds


class Ours(Exception):
    """Escapes its own parts."""


def test_a_name_neither_ends_a_line_nor_turns_it() -> None:
    assert printed("naïve 表") == "naïve 表"
    assert printed("a\nb\x1b\u202e") == "a\\nb\\x1b\\u202e"
    assert printed(7) == "7"


def test_a_time_is_in_utc() -> None:
    assert utc(1795234567123) == "2026-11-21T04:16:07.123Z"
    assert utc_seconds(1795234567123) == "2026-11-21T04:16:07Z"


def test_messages_are_escaped_in_each_part_of_a_traceback_but_those_that_are_already() -> None:
    try:
        try:
            raise ValueError("cause\nFORGED")
        except ValueError as error:
            group = ExceptionGroup("group\nFORGED", [KeyError("x"), Ours("two\nlines")])
            raise group from error
    except ExceptionGroup as raised:
        raised.add_note("note\nFORGED")
        text = traceback_text(raised, escaped=Ours)
    assert not any(line.startswith("FORGED") for line in text.splitlines())
    assert "Of this group, 2 of 2:" in text
    assert "two\nlines" in text
