"""The creation and use of class archives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from devstack import class_archive
from devstack.processes import Children


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "one.jar").touch()
    return folder


@pytest.fixture
def java(tmp_path: Path) -> str:
    program = tmp_path / "java"
    program.touch()
    return str(program)


def server(starts: list[list[str]]) -> Callable[[list[str]], None]:
    """A server whose JVM writes the archive that it is given."""

    def run(options: list[str]) -> None:
        starts.append(options)
        Path(options[0].removeprefix("-XX:ArchiveClassesAtExit=")).touch()

    return run


def test_an_archive_is_made_once_and_used_from_then_on(jars: Path, java: str) -> None:
    starts: list[list[str]] = []
    assert class_archive.use(jars, java) == []
    for _ in range(2):
        class_archive.make(jars, java, server(starts), owner=Children())
    assert len(starts) == 1
    used, *_ = class_archive.use(jars, java)
    assert Path(used.removeprefix("-XX:SharedArchiveFile=")).is_file()


@pytest.mark.parametrize("changed", ["java", "kafka/one.jar", "kafka/two.jar"])
def test_another_java_or_jar_needs_another_archive(
    jars: Path, java: str, tmp_path: Path, changed: str
) -> None:
    class_archive.make(jars, java, server([]), owner=Children())
    (tmp_path / changed).write_text("changed")
    assert class_archive.use(jars, java) == []
    class_archive.make(jars, java, server([]), owner=Children())
    assert class_archive.use(jars, java)
    assert len(list(tmp_path.glob("*.jsa"))) == 1


def test_a_jvm_that_makes_none_is_started_without_one(jars: Path, java: str) -> None:
    class_archive.make(jars, java, lambda _: None, owner=Children())
    assert class_archive.use(jars, java) == []
