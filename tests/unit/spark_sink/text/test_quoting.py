"""Names in SQL and in commands: quoted, and no more than a name."""

import subprocess

import pytest

from spark_sink import __main__ as command
from spark_sink.text.quoting import action, literal, quoted


def test_quotes_in_names_stay_inside_them() -> None:
    assert quoted("a`b") == "`a``b`"
    assert literal("a'b\\c") == r"'a\'b\\c'"


@pytest.mark.parametrize(
    "name",
    [("shop", "t"), ("x.y", "t"), ("a b", "it's\\"), ("${env}", "new\nline\x1b"), ("s", "a`.b")],
)
def test_the_remedy_names_a_table_as_a_shell_takes_it(name: tuple[str, str]) -> None:
    described = action(name)
    assert described.isprintable()
    shell = ["bash", "-c", f"printf '%s\\0' {described.removeprefix('Run: ')}"]
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")
    assert words[:4] == ["python", "-m", "spark_sink", "reload"]
    assert command._table(words[4]) == name
