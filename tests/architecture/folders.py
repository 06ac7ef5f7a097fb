"""The list of folders, docs/folders.md, generated from the first line of each folder's docstring.

Invariant: the page has nothing that the code does not state, so a folder is described in its own file alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import groupby

from tests.architecture.tree import PROJECT, Module, modules

PACKAGES = {
    "app": "The worker and what an operator runs",
    "tables": "State, history and rules",
    "connectors": "MySQL, Kafka, ZooKeeper and stores",
    "spark_sink": "The sink",
    "aqueduct_client": "The client of subscribers",
    "wire": "The wire contract",
}
"""The product's packages, each with its heading on the page."""
PAGE = PROJECT / "docs/folders.md"
_HEAD = """# Folders

This page lists the folders of the product. It is generated (`make docs`) from the first line of each folder's
docstring, and a test compares it with the code. [ARCHITECTURE.md](../ARCHITECTURE.md) describes how a row and a
statement pass through them.
"""


def page(found: Iterable[Module]) -> str:
    """The page of some packages' `__init__.py`."""
    listed = sorted(
        (one for one in found if one.is_package and _top(one) in PACKAGES),
        key=lambda one: ([*PACKAGES].index(_top(one)), one.name),
    )
    parts = [_HEAD]
    for top, of_top in groupby(listed, _top):
        rows = [f"| `{one.name.replace('.', '/')}/` | {_first_line(one)} |" for one in of_top]
        parts.append(
            "\n".join([f"## {PACKAGES[top]}\n", "| folder | contents |", "|---|---|", *rows, ""])
        )
    return "\n".join(parts)


def _top(module: Module) -> str:
    return module.name.partition(".")[0]


def _first_line(module: Module) -> str:
    paragraph = (ast.get_docstring(module.syntax()) or "").partition("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split()).removesuffix(".").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(modules()))
