"""The rule of commands: coroutines do the work and return values; only what calls them knows a shell.

Invariant: each check takes modules and gives breaches as sentences, so that planted ones can be seen to fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.tree import Module

OPERATOR = "app/operator/"
MIGRATE = "app/migrate/"
"""What the imports of other programs' configurations call: no file of it knows a shell."""
EVENT_LOOP = "app/operator/terminal.py"
"""The only file that runs an event loop for commands."""
PACKAGES = ("app/", "connectors/", "tables/")
OTHER_LOOPS = frozenset({"app/worker/assembly.py", "app/worker/destination/emptied_tables.py"})
"""Threads with one of their own: that which fills the central store, and the binlog's reader for a topic."""
GROWING = "app/operator/validation/"
"""Results there are filled while rows are compared."""

SHELL_MODULES = (
    "app.operator.terminal",
    "app.__main__",
    "argparse",
    "sys",
)
"""Modules of a shell: its arguments, its streams, its end."""
TEXTS = frozenset({"aligned_table", "shortened"})
"""Functions of these that only make text."""
SHELL_CALLS = {"print", "input", "exit", "quit", "SystemExit", "os._exit", "os.getenv"}
SHELL_NAMES = {"os.environ", "sys.argv", "sys.stdout", "sys.stderr", "sys.stdin"}
LOOP_CALLS = {"run", "Runner", "run_until_complete", "new_event_loop"}


def shell_in_coroutines(modules: Iterable[Module]) -> Iterator[str]:
    """Coroutines that use a shell, themselves or by functions of their file."""
    for module in _below(OPERATOR, modules):
        tree = module.syntax()
        shell = _shell_names(tree)
        functions = {
            node.name: node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for name, node in functions.items():
            if isinstance(node, ast.AsyncFunctionDef):
                for used in sorted(_reached(node, functions, shell)):
                    yield f"{module.file.path}: {name} uses {used}"


def _shell_names(tree: ast.Module) -> set[str]:
    """The names in a file that stand for a shell."""
    found = SHELL_CALLS | SHELL_NAMES
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_in(SHELL_MODULES, node.module or ""):
            found |= {one.asname or one.name for one in node.names if one.name not in TEXTS}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name == "argparse"}
    return found


def _reached(
    node: ast.AST, functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef], shell: set[str]
) -> set[str]:
    """The names of a shell that a function uses, or one that it uses."""
    found, seen, waiting = set[str](), set[str](), [node]
    while waiting:
        names = set(_names(waiting.pop()))
        found |= names & shell
        local = {name.removeprefix("self.") for name in names} & functions.keys() - seen
        seen |= local
        waiting += [functions[name] for name in local]
    return found


def shell_in_migrations(modules: Iterable[Module]) -> Iterator[str]:
    """Files of the migrations that know a shell: its modules, its streams, or its environment."""
    for module in _below(MIGRATE, modules):
        path = module.file.path
        for source, name in sorted(set(module.imports())):
            if _is_in(SHELL_MODULES, source) or _is_in(SHELL_MODULES, f"{source}.{name}"):
                yield f"{path} imports {source}"
        used = set(_names(module.syntax())) & (SHELL_CALLS | SHELL_NAMES)
        yield from (f"{path} uses {name}" for name in sorted(used))


def event_loops(modules: Iterable[Module]) -> Iterator[str]:
    """Event loops that are run elsewhere: by commands, or what they call."""
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


def mutable_results(modules: Iterable[Module]) -> Iterator[str]:
    """Dataclasses that commands' files offer and that are not frozen."""
    for module in _below(OPERATOR, modules):
        if module.file.path.startswith(GROWING):
            continue
        for node in module.nodes():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                if any("dataclass" in mark and "frozen=True" not in mark for mark in marks):
                    yield f"{module.file.path}: {node.name} is not frozen"


def _below(folder: str, modules: Iterable[Module]) -> list[Module]:
    return [module for module in modules if module.file.path.startswith(folder)]


def _is_in(packages: Iterable[str], name: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _calls(tree: ast.Module) -> Iterator[str]:
    return (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _names(tree: ast.AST) -> Iterator[str]:
    """The names and attributes that code uses; annotations are none of them."""
    annotations = {
        id(part)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if isinstance(value := getattr(node, field, None), ast.AST)
        for part in ast.walk(value)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in annotations:
            yield ast.unparse(node)
