from pathlib import Path

import pytest

from tests.architecture.texts import (
    machine_paths,
    methods_without_docstring,
    registry_hosts,
    too_long,
    without_docstring,
)
from tests.architecture.tree import PROJECT, File, files, module_from, modules

EXCUSED = {
    "requirements.lock": "every package with all its hashes; made by a tool",
    "requirements.worker.lock": "the same, for the worker's image",
    "connectors/errors.py": "the one tree of errors; each of them is read by itself",
}


def test_no_file_names_the_host_of_a_registry() -> None:
    assert list(registry_hosts(files())) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert list(machine_paths(files(), PROJECT)) == []


def test_no_file_is_too_long_without_a_reason() -> None:
    assert list(too_long(files(), EXCUSED)) == []


def test_every_module_says_why_it_exists() -> None:
    assert list(without_docstring(modules())) == []


@pytest.mark.parametrize(
    "host",
    ["py" + "pi.org", "repo1.maven" + ".org", "deb.debian" + ".org", "files.pythonhosted" + ".org"],
)
def test_a_registry_host_is_found_in_any_file(host: str) -> None:
    planted = File("Makefile", f"fine\n\tpip install -i https://{host}/simple x\n")
    (found,) = registry_hosts([planted])
    assert found.startswith("Makefile:2 names ")


def test_a_name_that_only_looks_like_a_registry_is_let_be() -> None:
    planted = File("a.xml", 'xmlns="http://maven.apache.org/SETTINGS/1.2.0"\npypi_organised\n')
    assert list(registry_hosts([planted])) == []


@pytest.mark.parametrize("path", ["/ro" + "ot/.cache", "/wo" + "rk/main/app", "/srv/copy/app/x.py"])
def test_a_path_of_one_machine_is_found(path: str) -> None:
    planted = File("docs/x.md", f"see `{path}`\n")
    assert list(machine_paths([planted], Path("/srv/copy"))) == [
        "docs/x.md:1 names a path of one machine"
    ]


def test_a_path_that_every_machine_has_is_let_be() -> None:
    planted = File("unit", "/var/lib/aqueduct\n$HOME/work/x ~/work/ .run/root/\n")
    assert list(machine_paths([planted], Path("/src"))) == []


def test_a_long_file_is_found_and_so_is_an_idle_excuse() -> None:
    planted = [File("long.py", "x\n" * 901), File("short.py", "x\n" * 900)]
    assert list(too_long(planted, {"short.py": "it was long once"})) == [
        "long.py has 901 lines, more than 900",
        "short.py is excused for nothing",
    ]


def test_a_module_without_a_docstring_is_found() -> None:
    planted = [
        module_from("app/bare.py", "x = 1\n"),
        module_from("app/empty.py", ""),
        module_from("tests/unit/test_bare.py", "x = 1\n"),
        module_from("tests/unit/harness.py", "x = 1\n"),
    ]
    assert list(without_docstring(planted)) == [
        "app/bare.py has no docstring",
        "tests/unit/harness.py has no docstring",
    ]


def test_every_public_method_says_what_it_does() -> None:
    assert list(methods_without_docstring(modules())) == []


def test_a_method_needs_no_docstring_where_a_protocol_has_it() -> None:
    contract = 'class Store(Protocol):\n    def put(self) -> None:\n        """Keep it."""\n'
    made = "class Folder:\n    def put(self) -> None: ...\n    def drop(self) -> None: ...\n"
    planted = [module_from("tables/store.py", contract), module_from("tables/folder.py", made)]
    assert list(methods_without_docstring(planted)) == [
        "tables/folder.py:3 Folder.drop has no docstring"
    ]
