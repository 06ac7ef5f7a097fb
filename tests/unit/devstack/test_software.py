from pathlib import Path

import pytest

from devstack import seal
from devstack.java import parse_version
from devstack.mysql_software import is_usable


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up _JAVA_OPTIONS: -Xmx1g\njava version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_javas_major_version_is_read_from_what_it_prints(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("banner", "usable"),
    [
        ("/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", True),
        ("mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64 ((Ubuntu))", True),
        ("mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))", False),
        ("mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64", False),
        ("", False),
    ],
)
def test_only_mysql_from_8_0_on_is_used(banner: str, *, usable: bool) -> None:
    assert is_usable(banner) is usable


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = tmp_path / "software"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/a.so").write_bytes(b"whole")
    seal.write_seal(folder, about={"a.deb": "hash"})
    return folder


def test_a_sealed_folder_is_intact(sealed: Path) -> None:
    assert seal.intact(sealed, about={"a.deb": "hash"})


def test_a_sealed_folder_made_from_something_else_is_not_taken(sealed: Path) -> None:
    assert not seal.intact(sealed, about={"a.deb": "another"})


def test_a_changed_a_cut_and_a_lost_file_are_noticed(sealed: Path) -> None:
    file = sealed / "lib/a.so"
    file.write_bytes(b"whale")
    assert not seal.intact(sealed)
    file.write_bytes(b"who")
    assert not seal.intact(sealed)
    file.unlink()
    assert not seal.intact(sealed)


def test_a_copy_with_other_times_is_read_again_and_found_whole(sealed: Path) -> None:
    (sealed / "lib/a.so").write_bytes(b"whole")
    assert seal.intact(sealed)


def test_a_folder_without_a_readable_seal_is_not_intact(tmp_path: Path) -> None:
    assert not seal.intact(tmp_path)
    (tmp_path / "seal.json").write_text("{")
    assert not seal.intact(tmp_path)
