"""The import rules: layers, cycles, and the home of each third-party library.

Invariant: each check takes modules and returns breaches as sentences, so that planted ones can be seen to fail.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.tree import Module

LAYERS: Mapping[str, frozenset[str]] = {
    "wire": frozenset({"wire"}),
    "connectors": frozenset({"wire", "connectors"}),
    "tables": frozenset({"wire", "connectors", "tables"}),
    "app": frozenset({"wire", "connectors", "tables", "app", "aqueduct_client"}),
    "spark_sink": frozenset({"wire", "spark_sink"}),
    "aqueduct_client": frozenset({"wire", "aqueduct_client"}),
}
"""The project's packages that each package may import; devstack, demo, bench and tests may import all."""

ROOMS: Mapping[str, Mapping[str, str]] = {
    "tables": {
        "journal_format": "",
        "journal_kind": "journal_format",
        "rules": "",
        "history": "rules journal_format journal_kind",
        "state": "rules history journal_format journal_kind",
    },
    "app": {
        "version": "",
        "failpoints": "",
        "metrics": "",
        "settings": "",
        "migrate": "settings",
        "audit": "settings",
        "worker": "settings metrics failpoints version",
        "operator": "settings migrate audit worker",
    },
    "spark_sink": {
        "text": "",
        "errors": "text",
        "settings": "text errors",
        "spark": "text errors settings",
        "source": "text errors settings spark",
        "metrics": "settings source",
        "warehouse": "text errors settings spark source",
        "batch": "text errors settings spark source metrics warehouse",
        "views": "text errors settings spark source metrics warehouse batch",
        "jobs": "text errors settings spark source metrics warehouse batch views",
    },
}
"""The rooms of a package, each with the others that it may import; the entries beside them may import all.

The audit proves what the worker did, so neither imports anything of the other.
"""

HOMES: Mapping[str, tuple[str, ...]] = {
    "faust": ("app/", "tables/"),
    "mode": ("app/", "tables/"),
    "aiohttp": ("app/worker/process/http.py",),
    "yarl": ("app/",),
    "pymysql": ("connectors/mysql/",),
    "pymysqlreplication": ("connectors/mysql/",),
    "sqlglot": ("tables/rules/mapping/row_filter.py",),
    "zstandard": ("connectors/mysql/",),
    "kazoo": ("connectors/zookeeper/", "aqueduct_client/election.py"),
    "aiokafka": ("connectors/kafka/", "aqueduct_client/kafka"),
    "cryptography": ("tables/rules/masking.py", "connectors/mysql/server/parsec.py"),
    "botocore": ("connectors/store/s3.py",),
    "pyspark": ("spark_sink/",),
    "py4j": ("spark_sink/",),
    "prometheus_client": ("app/metrics.py", "spark_sink/metrics.py"),
    "pydantic": ("app/settings/", "spark_sink/settings/model.py"),
    "pydantic_settings": ("app/settings/", "spark_sink/settings/model.py"),
    "yaml": (
        "app/settings/file.py",
        "tables/rules/mapping/forms.py",
        "spark_sink/settings/model.py",
    ),
    "fastavro": ("app/worker/pipeline/formats/avro.py",),
    "orjson": ("app/", "tables/", "connectors/"),
}
"""Where the product may import a library: folders, files, or beginnings of file names."""

_OURS = {*LAYERS, "devstack", "demo", "bench", "tests"}


def layer_breaches(modules: Iterable[Module]) -> Iterator[str]:
    """Imports that go the wrong way between the packages of the product."""
    for module in modules:
        allowed = LAYERS.get(_top(module.name))
        if allowed is None:
            continue
        for source in sorted({_top(source) for source, _ in module.imports()} & _OURS - allowed):
            yield f"{module.file.path} imports {source}"


def room_breaches(modules: Iterable[Module]) -> Iterator[str]:
    """Imports that go the wrong way between the rooms of a package."""
    for module in modules:
        package, _, below = module.name.partition(".")
        rooms, room = ROOMS.get(package, {}), _top(below)
        if room not in rooms:
            continue
        named = {
            f"{source}.{name}.".split(".")[1]
            for source, name in module.imports()
            if _top(source) == package
        }
        for other in sorted(named & rooms.keys() - {room, *rooms[room].split()}):
            yield f"{module.file.path} imports {package}.{other}"


def homeless(modules: Iterable[Module]) -> Iterator[str]:
    """Third-party imports of the product outside the library's home, or of a library that has none."""
    for module in modules:
        if _top(module.name) not in LAYERS:
            continue
        for library in sorted({_top(source) for source, _ in module.imports()}):
            if library in _OURS or library in sys.stdlib_module_names:
                continue
            if not module.file.path.startswith(HOMES.get(library, ())):
                yield f"{module.file.path} imports {library}"


FORMATS = ("spark_sink/warehouse/delta/", "spark_sink/warehouse/iceberg/")
"""The folders that know a table format; `opening.py` beside them selects one."""
_SHARED = "spark_sink/warehouse/common/"
"""SQL that the formats have in common."""
_NAMED = frozenset(
    {
        "spark_sink/settings/required_conf.py",
        "spark_sink/settings/model.py",
        "spark_sink/spark/session.py",
    }
)
"""Besides the choice, modules that may compare the setting of the format."""
_CHOICE = "spark_sink/warehouse/opening.py"
_FORMAT_SQL = re.compile(
    r"\b(MERGE INTO|INSERT INTO|DELETE FROM|UPDATE|(CREATE|ALTER|DROP)( OR REPLACE)? TABLE|OPTIMIZE|VACUUM"
    r"|DESCRIBE DETAIL|RESTORE TABLE)\b.*(\{|delta\.|`)"
)
_FORMAT_WORDS = frozenset({"delta", "_delta_log", "DeltaTable", "iceberg"})


def format_breaches(modules: Iterable[Module]) -> Iterator[str]:
    """Uses of a table format in the sink outside its folder: imports, SQL against tables, readers, writers."""
    for module in modules:
        path = module.file.path
        if _top(module.name) != "spark_sink" or path.startswith(FORMATS):
            continue
        if path != _CHOICE and any(_of_format(source) for source, _ in module.imports()):
            yield f"{path} imports a table format"
        for text in _texts(module):
            is_sql = _FORMAT_SQL.search(text) and not path.startswith(_SHARED)
            is_name = text in _FORMAT_WORDS and path not in {_CHOICE, *_NAMED}
            if is_sql or is_name or "_delta_log" in text:
                yield f"{path} has {text!r}"


def _of_format(source: str) -> bool:
    folders = [folder.rstrip("/").replace("/", ".") for folder in FORMATS]
    return _top(source) == "delta" or any(
        source == f or source.startswith(f"{f}.") for f in folders
    )


def _texts(module: Module) -> Iterator[str]:
    """Each string of a module except docstrings, with {} for inserted values."""
    docs = {id(node.value) for node in module.nodes() if isinstance(node, ast.Expr)}
    for node in module.nodes():
        if isinstance(node, ast.JoinedStr):
            yield "".join(_part(value) for value in node.values)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            yield node.value


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def cycles(modules: Iterable[Module]) -> Iterator[str]:
    """Each group of modules that import one another, in a round or by way of others."""
    graph = _graph(list(modules))
    for group in _strongly_connected(graph):
        if len(group) > 1:
            yield " <-> ".join(sorted(group))


def folder_cycles(modules: Iterable[Module]) -> Iterator[str]:
    """Each group of entries of one folder of the product that import one another, in a round."""
    found = [module for module in modules if _top(module.name) in LAYERS]
    paths = {module.name: _entries(module) for module in found}
    folders: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for name, wanted in _graph(found).items():
        for folder, entry, other in (_arrow(paths[name], paths[target]) for target in wanted):
            arrows = folders.setdefault(folder, {})
            arrows.setdefault(entry, set()).add(other)
            arrows.setdefault(other, set())
    for folder, arrows in sorted(folders.items()):
        for group in _strongly_connected(arrows):
            if len(group) > 1:
                yield f"{'/'.join(folder)}: {' <-> '.join(sorted(group))}"


def _entries(module: Module) -> tuple[str, ...]:
    """The folders that a module is in, and itself."""
    return tuple(module.file.path.removesuffix(".py").split("/"))


def _arrow(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[tuple[str, ...], str, str]:
    """The deepest folder of both, and the entries of it that they are in."""
    at = next(number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[:at], one[at], other[at]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _graph(modules: list[Module]) -> dict[str, set[str]]:
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        wanted = set()
        for source, name in module.imports():
            inner = f"{source}.{name}"
            wanted.add(inner if inner in names else source)
        graph[module.name] = wanted & names - {module.name}
    return graph


def _strongly_connected(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Groups in which each reaches each, by a plain search from each that is in one or above one."""
    above = dict(graph)
    while ends := [name for name, targets in above.items() if not targets & above.keys()]:
        for name in ends:
            del above[name]
    reached = {name: _reach(graph, name) for name in above}
    grouped: set[str] = set()
    for name in sorted(above):
        if name not in grouped:
            group = {other for other in reached[name] & above.keys() if name in reached[other]}
            grouped |= group | {name}
            yield group | {name}


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for following in graph[waiting.pop()] - found:
            found.add(following)
            waiting.append(following)
    return found
