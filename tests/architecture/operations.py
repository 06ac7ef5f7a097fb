"""The rule of operations and the shells over them: commands read arguments and print, operations do the work.

Invariant: each check takes modules and gives breaches as sentences, so that planted ones can be seen to fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.tree import Module

OPERATIONS = ("app/operator/operations/", "app/migrate/")
"""What commands call: it knows no shell, and returns values."""
COMMANDS = "app/operator/commands/"
EVENT_LOOP = "app/operator/commands/event_loop.py"
"""The only file that runs an event loop for commands."""
PACKAGES = ("app/", "connectors/", "tables/")
OTHER_LOOPS = frozenset({"app/worker/assembly.py", "app/worker/destination/emptied_tables.py"})
"""Threads with one of their own: that which fills the central store, and the binlog's reader for a topic."""

SHELL_MODULES = ("app.operator.commands", "app.__main__", "argparse", "sys")
"""Modules of a shell: its arguments, its streams, its end."""
SHELL_CALLS = {"print", "input", "exit", "quit", "SystemExit", "os._exit", "os.getenv"}
SHELL_NAMES = {"os.environ", "sys.argv", "sys.stdout", "sys.stderr", "sys.stdin"}
LOOP_CALLS = {"run", "Runner", "run_until_complete", "new_event_loop"}

WORKING = (
    "app.audit",
    "app.worker.coordination",
    "app.worker.destination",
    "app.worker.schemas",
    "app.worker.wiring",
    "connectors.kafka",
    "connectors.mysql.lookup",
    "connectors.mysql.schema",
    "connectors.mysql.server",
    "connectors.zookeeper",
)
"""Packages whose functions ask servers, or make what does."""
VALUES = {
    ("app.audit.truth.witness", "WitnessName"),
    ("app.worker.wiring", "central_store"),
    ("connectors.kafka.reading.open_transactions", "OpenTransaction"),
    ("connectors.mysql.lookup.start", "FIRST_EVENT"),
    ("connectors.mysql.lookup.start", "AfterGtids"),
    ("connectors.mysql.lookup.start", "AtCoordinates"),
    ("connectors.mysql.lookup.start", "AtTime"),
    ("connectors.mysql.lookup.start", "Earliest"),
    ("connectors.mysql.lookup.start", "Latest"),
    ("connectors.mysql.lookup.start", "Start"),
    ("connectors.mysql.schema.baseline", "Baseline"),
}
"""The names that commands may import: values to pass and print, and settings made into a connection."""


def shell_in_operations(modules: Iterable[Module]) -> Iterator[str]:
    """Operations that know a shell: its modules, its streams, or its environment."""
    for module in _below(OPERATIONS, modules):
        path = module.file.path
        for source, name in sorted(set(module.imports())):
            if _is_in(SHELL_MODULES, source) or _is_in(SHELL_MODULES, f"{source}.{name}"):
                yield f"{path} imports {source}"
        tree = module.syntax()
        yield from (f"{path} calls {name}" for name in _calls(tree) if name in SHELL_CALLS)
        yield from (f"{path} uses {name}" for name in _names(tree) if name in SHELL_NAMES)


def event_loops(modules: Iterable[Module]) -> Iterator[str]:
    """Event loops that are run elsewhere: by commands, operations, or what they call."""
    for module in modules:
        path = module.file.path
        if not path.startswith(PACKAGES) or path == EVENT_LOOP or path in OTHER_LOOPS:
            continue
        for name in _calls(module.syntax()):
            package, _, last = name.rpartition(".")
            if last in LOOP_CALLS and (package == "asyncio" or last.startswith("run_")):
                yield f"{path} calls {name}"
        if ("asyncio", "run") in module.imports():
            yield f"{path} imports asyncio.run"


def work_in_commands(modules: Iterable[Module]) -> Iterator[str]:
    """Commands that import code that queries a server, instead of an operation."""
    for module in _below(COMMANDS, modules):
        for source, name in sorted(set(module.imports())):
            is_working = _is_in(WORKING, source) or _is_in(WORKING, f"{source}.{name}")
            if is_working and (source, name) not in VALUES:
                yield f"{module.file.path} imports {name or source} of {source}"


def mutable_results(modules: Iterable[Module]) -> Iterator[str]:
    """Dataclasses that operations offer and that are not frozen."""
    for module in _below(OPERATIONS, modules):
        for node in ast.walk(module.syntax()):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                if any("dataclass" in mark and "frozen=True" not in mark for mark in marks):
                    yield f"{module.file.path}: {node.name} is not frozen"


def _below(folder: str | tuple[str, ...], modules: Iterable[Module]) -> list[Module]:
    return [module for module in modules if module.file.path.startswith(folder)]


def _is_in(packages: Iterable[str], name: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _calls(tree: ast.Module) -> Iterator[str]:
    return (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _names(tree: ast.Module) -> Iterator[str]:
    return (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
