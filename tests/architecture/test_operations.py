"""Operations know no shell, and commands do no work."""

import pytest

from tests.architecture.operations import (
    EVENT_LOOP,
    VALUES,
    event_loops,
    mutable_results,
    shell_in_operations,
    work_in_commands,
)
from tests.architecture.tree import module_from, modules


def test_operations_know_no_shell() -> None:
    assert list(shell_in_operations(modules())) == []


def test_one_place_runs_the_event_loop_of_commands() -> None:
    assert list(event_loops(modules())) == []
    (place,) = [module for module in modules() if module.file.path == EVENT_LOOP]
    assert place.file.text.count("asyncio.run(") == 1


def test_commands_ask_no_server() -> None:
    assert list(work_in_commands(modules())) == []


def test_what_operations_return_is_frozen() -> None:
    assert list(mutable_results(modules())) == []


def test_each_value_that_commands_may_import_is_imported() -> None:
    commands = [module for module in modules() if module.name.startswith("app.operator.commands.")]
    assert {each for module in commands for each in module.imports()} >= VALUES


@pytest.mark.parametrize(
    ("text", "breach"),
    [
        (
            "from app.operator.commands.output import answer\n",
            "imports app.operator.commands.output",
        ),
        ("from app.operator import commands\n", "imports app.operator"),
        ("def f():\n    import argparse\n", "imports argparse"),
        ("import sys\n", "imports sys"),
        ("print('done')\n", "calls print"),
        ("raise SystemExit(1)\n", "calls SystemExit"),
        ("import os\nwho = os.environ['USER']\n", "uses os.environ"),
    ],
)
def test_an_operation_that_knows_a_shell_is_found(text: str, breach: str) -> None:
    planted = module_from("app/operator/operations/cursor/wrong.py", text)
    assert list(shell_in_operations([planted])) == [
        f"app/operator/operations/cursor/wrong.py {breach}"
    ]


@pytest.mark.parametrize(
    "folder", ["app/operator/operations", "app/operator/commands/cursor", "connectors/kafka"]
)
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


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("connectors.kafka.reading.partition_reader", "read_each"),
        ("connectors.mysql.server.facts", "read_facts"),
        ("app.worker.destination.takeover.recovery", "recover"),
    ],
)
def test_a_command_that_asks_a_server_itself_is_found(source: str, name: str) -> None:
    planted = module_from("app/operator/commands/wrong.py", f"from {source} import {name}\n")
    assert list(work_in_commands([planted])) == [
        f"app/operator/commands/wrong.py imports {name} of {source}"
    ]


def test_a_result_that_may_change_is_found() -> None:
    text = (
        "@dataclass(slots=True)\nclass Found:\n    x: int\n\n@dataclass\nclass _Own:\n    y: int\n"
    )
    planted = module_from("app/operator/operations/wrong.py", text)
    assert list(mutable_results([planted])) == [
        "app/operator/operations/wrong.py: Found is not frozen"
    ]
