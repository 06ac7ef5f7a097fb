"""Coroutines know no shell, and one place runs the event loop of commands."""

import pytest

from tests.architecture.operations import (
    EVENT_LOOP,
    event_loops,
    mutable_results,
    shell_in_coroutines,
    shell_in_migrations,
)
from tests.architecture.tree import module_from, modules


def test_coroutines_know_no_shell() -> None:
    assert list(shell_in_coroutines(modules())) == []


def test_migrations_know_no_shell() -> None:
    assert list(shell_in_migrations(modules())) == []


def test_one_place_runs_the_event_loop_of_commands() -> None:
    assert list(event_loops(modules())) == []
    (place,) = [module for module in modules() if module.file.path == EVENT_LOOP]
    assert place.file.text.count("asyncio.run(") == 1


def test_what_coroutines_return_is_frozen() -> None:
    assert list(mutable_results(modules())) == []


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (
            "from app.operator.terminal import print_answer\nasync def f():\n    print_answer()\n",
            "print_answer",
        ),
        ("async def f():\n    print('done')\n", "print"),
        ("import sys\nasync def f():\n    sys.stdout.write('')\n", "sys.stdout"),
        ("import os\nasync def f():\n    return os.environ['USER']\n", "os.environ"),
        ("async def f():\n    g()\ndef g():\n    h()\ndef h():\n    input()\n", "input"),
        (
            "class A:\n    async def f(self):\n        self.g()\n    def g(self):\n        quit()\n",
            "quit",
        ),
    ],
)
def test_a_coroutine_that_knows_a_shell_is_found(text: str, used: str) -> None:
    planted = module_from("app/operator/wrong.py", text)
    assert list(shell_in_coroutines([planted])) == [f"app/operator/wrong.py: f uses {used}"]


def test_what_calls_a_coroutine_may_print_and_a_coroutine_may_make_text() -> None:
    text = (
        "import sys\nfrom app.operator.terminal import shortened\n"
        "async def f():\n    return shortened('x')\n"
        "def g():\n    sys.stdout.write(run_operation(f()))\n"
    )
    assert list(shell_in_coroutines([module_from("app/operator/right.py", text)])) == []


@pytest.mark.parametrize(
    ("text", "breach"),
    [
        ("def f():\n    import argparse\n", "imports argparse"),
        ("from app.operator import terminal\n", "imports app.operator"),
        ("raise SystemExit(1)\n", "uses SystemExit"),
    ],
)
def test_a_migration_that_knows_a_shell_is_found(text: str, breach: str) -> None:
    planted = module_from("app/migrate/wrong.py", text)
    assert list(shell_in_migrations([planted])) == [f"app/migrate/wrong.py {breach}"]


@pytest.mark.parametrize("folder", ["app/operator", "app/migrate", "connectors/kafka"])
@pytest.mark.parametrize(
    ("text", "breach"),
    [
        ("import asyncio\nasyncio.run(work())\n", "calls asyncio.run"),
        ("from asyncio import run\nrun(work())\n", "imports asyncio.run"),
        ("def f(loop):\n    loop.run_until_complete(work())\n", "calls loop.run_until_complete"),
    ],
)
def test_a_second_event_loop_is_found(folder: str, text: str, breach: str) -> None:
    planted = module_from(f"{folder}/wrong.py", text)
    assert list(event_loops([planted])) == [f"{folder}/wrong.py {breach}"]


def test_a_result_that_may_change_is_found() -> None:
    text = (
        "@dataclass(slots=True)\nclass Found:\n    x: int\n\n@dataclass\nclass _Own:\n    y: int\n"
    )
    planted = module_from("app/operator/wrong.py", text)
    assert list(mutable_results([planted])) == ["app/operator/wrong.py: Found is not frozen"]
