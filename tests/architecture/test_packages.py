"""Each pinned package is used."""

from __future__ import annotations

import re
import tomllib

import spark_sink
from app import version
from tests.architecture.imports import LAYERS
from tests.architecture.packages import not_imported, pinned
from tests.architecture.tree import PROJECT, Module, module_from, modules

RUN_AS_PROGRAMS = {
    "ruff": "make check",
    "mypy": "make check",
    "pytest-asyncio": "a plugin of pytest",
    "moto": "tests/s3.py starts its server",
    "flask": "moto's server",
    "flask-cors": "moto's server",
}
"""Development tools that are started instead of imported."""


def pins() -> dict[str, list[str]]:
    return pinned((PROJECT / "pyproject.toml").read_text())


def product() -> list[Module]:
    return [module for module in modules() if module.name.partition(".")[0] in LAYERS]


def test_the_product_imports_each_package_that_it_pins() -> None:
    wanted = [*pins()[""], *pins()["sink"]]
    assert len(wanted) > 10
    assert list(not_imported(wanted, product())) == []


def test_each_development_package_is_imported_or_run() -> None:
    assert set(not_imported(pins()["dev"], modules())) == RUN_AS_PROGRAMS.keys()


def test_a_package_that_is_not_imported_is_found() -> None:
    planted = [module_from("app/planted.py", "import kazoo.client\n")]
    assert list(not_imported(["kazoo", "aiokafka"], planted)) == ["aiokafka"]


def test_the_sinks_image_keeps_no_development_package() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    (line,) = re.findall(r"pip uninstall --yes (.+)", dockerfile)
    assert set(line.split()) == set(pins()["dev"])


def test_the_package_the_worker_and_the_sink_have_one_version() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["version"] == version.__version__ == spark_sink.__version__
