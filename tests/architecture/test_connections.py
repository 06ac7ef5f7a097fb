"""One place opens connections to MySQL on each side, so that each session states what its answers depend on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.tree import Module, module_from, modules

WORKER, SINK = "connectors/mysql/server/connection.py", "spark_sink/jobs/load/server.py"
_PRODUCT = ("aqueduct_client/", "app/", "connectors/", "spark_sink/", "tables/", "wire/")
_OPENERS = {"connect", "Connect", "Connection"}
_DRIVERS = {"pymysql", "pymysql.connections"}
_URLS = ("jdbc:mysql:", "jdbc:mariadb:", "sessionVariables")
"""Of a text that begins a URL, or sets variables in one."""
_CHECKED = {"spark_sink/settings/model.py"}
"""It refuses an operator's own."""


def openings(found: Iterable[Module]) -> Iterator[str]:
    """Each place that opens a connection to MySQL, or makes the URL of one."""
    for module in found:
        path = module.file.path
        if not path.startswith(_PRODUCT):
            continue
        if path != WORKER and any(map(_opens, module.nodes())):
            yield f"{path} opens a connection"
        if path not in (SINK, *_CHECKED) and any(map(_is_url, module.nodes())):
            yield f"{path} makes the URL of a connection"


def _opens(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module in _DRIVERS and any(one.name in _OPENERS for one in node.names)
    if not (isinstance(node, (ast.Call, ast.ClassDef))):
        return False
    called = [node.func] if isinstance(node, ast.Call) else node.bases
    return any(
        isinstance(one, ast.Attribute)
        and one.attr in _OPENERS
        and ast.unparse(one.value) in _DRIVERS
        for one in called
    )


def _is_url(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and str(getattr(node, "value", "")).startswith(_URLS)


def test_one_module_of_the_worker_and_one_of_the_sink_open_connections() -> None:
    assert list(openings(modules())) == []


def test_both_do() -> None:
    (worker,) = (one for one in modules() if one.file.path == WORKER)
    (sink,) = (one for one in modules() if one.file.path == SINK)
    assert any(map(_opens, worker.nodes()))
    assert any(map(_is_url, sink.nodes()))


@pytest.mark.parametrize(
    "source",
    [
        "import pymysql\nopened = pymysql.connect(host='h')\n",
        "import pymysql\n\n\ndef f() -> None:\n    pymysql.Connection(host='h')\n",
        "import pymysql.connections\npymysql.connections.Connection()\n",
        "from pymysql import connect\n",
        "from pymysql.connections import Connection as C\n",
        "import pymysql\n\n\nclass Own(pymysql.Connection):\n    pass\n",
        "def f(server: str) -> str:\n    return f'jdbc:mysql://{server}/'\n",
        "options = {'sessionVariables': 'autocommit=0'}\n",
    ],
)
def test_any_other_place_is_found(source: str) -> None:
    assert len(list(openings([module_from("app/wrong.py", source)]))) == 1


def test_a_type_and_a_pattern_are_none() -> None:
    source = "import pymysql\nimport re\nX: pymysql.Connection\nURL = re.compile('(jdbc:mysql:)')\n"
    assert list(openings([module_from("app/fine.py", source)])) == []
