"""The command line of an unpacked MariaDB."""

from pathlib import Path

import pytest

from devstack.mariadb import MARIADB, software_in


@pytest.mark.parametrize("share", ["mysql", "mariadb"])
def test_an_unpacked_server_runs_with_its_own_libraries_and_scripts(
    tmp_path: Path, share: str
) -> None:
    libraries = tmp_path / "lib/x86_64-linux-gnu"
    scripts = tmp_path / "usr/share" / share
    for folder in (libraries, scripts / "charsets"):
        folder.mkdir(parents=True)
    (libraries / "ld-linux-x86-64.so.2").touch()
    for name in ("system_tables", "performance_tables", "system_tables_data", "sys_schema"):
        (scripts / f"{share}_{name}.sql").write_text(f"-- {name}")
    software = software_in(tmp_path)
    loader, option, searched, server = software.server
    assert Path(loader).name == "ld-linux-x86-64.so.2"
    assert (option, searched) == ("--library-path", str(libraries))
    assert server == str(tmp_path / "usr/sbin/mariadbd")
    MARIADB.through(software, tmp_path, tmp_path / "data")
    assert (tmp_path / "bootstrap.sql").read_text().splitlines() == [
        "CREATE DATABASE mysql;",
        "USE mysql;",
        "-- system_tables",
        "-- performance_tables",
        "-- system_tables_data",
    ]
