"""Each pinned package is used."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import spark_sink
from app import version
from tests.architecture.imports import LAYERS
from tests.architecture.packages import not_imported, pinned
from tests.architecture.tree import PROJECT, Module, files, module_from, modules

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


def lacking(packages: Collection[str], found: Iterable[Module]) -> Iterator[str]:
    """Packages of ours that some packages import and that are not among them."""
    ours = [one for one in found if one.name.partition(".")[0] in packages]
    wanted = {source.partition(".")[0] for module in ours for source, _ in module.imports()}
    yield from sorted((wanted & LAYERS.keys()) - set(packages))


def zipped() -> list[str]:
    """What the page of the sink has `zip` put into the archive for `spark-submit`."""
    (line,) = re.findall(r"^zip -r spark_sink.zip (.+)$", page("docs/sink/deploy.md"), re.MULTILINE)
    return str(line).split()


def page(path: str) -> str:
    return (PROJECT / path).read_text()


def images() -> dict[str, set[str]]:
    """The packages of ours in each image, by the name of its stage."""
    stages = re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM|\Z)", page("Dockerfile"), re.M | re.S)
    copied = {name: set(re.findall(r"^COPY (\w+)/ /app/", text, re.M)) for name, text in stages}
    return {name: packages for name, packages in copied.items() if packages}


def test_each_image_and_the_archive_have_all_that_their_packages_import() -> None:
    artefacts = {**images(), "zip": set(zipped())}
    assert artefacts.keys() == {"worker", "sink", "zip"}
    for name, packages in artefacts.items():
        assert "wire" in packages
        assert (name, list(lacking(packages, modules()))) == (name, [])
    ignored = page(".dockerignore").splitlines()
    assert [one for one in set().union(*images().values()) if f"!{one}" not in ignored] == []


def test_a_package_that_an_image_lacks_is_found() -> None:
    planted = [module_from("spark_sink/a.py", "import wire.topics\n")]
    assert list(lacking({"spark_sink"}, planted)) == ["wire"]


def test_the_wheel_has_all_packages() -> None:
    found = tomllib.loads(page("pyproject.toml"))["tool"]["setuptools"]["packages"]["find"]
    packages = [one.name for one in product() if one.is_package]
    left = [one for one in packages if not any(fnmatchcase(one, like) for like in found["include"])]
    assert left == []


def test_the_contract_is_imported_from_the_archive_with_the_standard_library_alone(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "sink.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for one in files():
            if one.path.startswith("wire/"):
                packed.writestr(one.path, one.text)
    names = [one.name for one in modules() if one.name.startswith("wire")]
    assert "wire.topics" in names
    # Isolated and without site-packages: nothing of this checkout is found.
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import {', '.join(names)}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=150)
