from pathlib import Path

from demo.errors import DemoError, PartFailed


class SomethingBroke(DemoError):
    """Something broke."""


def _described(log: Path) -> list[str]:
    return str(PartFailed("the part died", log=log, advice="start it")).splitlines()


def test_the_message_of_an_error_is_its_docstring_unless_one_is_given() -> None:
    assert str(SomethingBroke()) == "Something broke."
    assert str(SomethingBroke("the pump broke")) == "the pump broke"


def test_a_failed_part_is_reported_with_the_end_of_its_log_and_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_text("".join(f"line {n}\n" for n in range(40)))
    what, *lines, where, advice = _described(log)
    assert what == "the part died"
    assert lines == [f"  | line {n}" for n in range(30, 40)]
    assert str(log) in where
    assert "start it" in advice


def test_an_error_is_shown_even_if_much_was_logged_after_it(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_text("12:00 ERROR the cause\n" + "stopping…\n" * 40)
    lines = _described(log)[1:]
    assert lines[:2] == ["  | 12:00 ERROR the cause", "  | …"]


def test_a_part_without_a_log_is_said_to_have_none(tmp_path: Path) -> None:
    assert _described(tmp_path / "none.log")[1] == "  | (the log is empty)"
