from __future__ import annotations

from pathlib import Path

import pytest

from app.migrate.canal.configuration import Configuration, Surroundings, read_configuration


def written(folder: Path, server: str, **instances: str) -> Configuration:
    conf = folder / "conf"
    for name, text in instances.items():
        (conf / name).mkdir(parents=True)
        (conf / name / "instance.properties").write_text(text)
    (conf / "canal.properties").write_text(server)
    return read_configuration(folder, Surroundings())


def test_members_of_a_group_are_instances_with_the_keys_that_have_no_number(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "canal.destinations = g\n",
        g="canal.instance.master1.address = a\ncanal.instance.master2.address = b\n"
        "canal.instance.standby2.address = c\ncanal.instance.dbUsername = u\n",
    )
    one, two = found.instances
    assert (one.label, two.label) == ("g-1", "g-2")
    assert one.keys.text("canal.instance.master.address") == "a"
    assert one.keys.get("canal.instance.standby.address") is None
    assert two.keys.text("canal.instance.standby.address") == "c"
    assert two.keys.text("canal.instance.dbUsername") == "u"


@pytest.mark.parametrize(
    ("server", "run", "missing", "not_run"),
    [
        ("canal.destinations = s1,s9", ["s1"], ("s9",), ("s2", "s3")),
        ("canal.destinations.expr = s{1-2}", ["s1", "s2"], (), ("s3",)),
        ("canal.destinations = s1\ncanal.auto.scan = true", ["s1", "s2", "s3"], (), ()),
    ],
)
def test_listed_instances_run_and_with_auto_scan_all(
    tmp_path: Path, server: str, run: list[str], missing: tuple[str, ...], not_run: tuple[str, ...]
) -> None:
    address = "canal.instance.master.address = a"
    found = written(tmp_path, server, s1=address, s2=address, s3=address)
    assert [one.label for one in found.instances] == run
    assert (found.missing, found.not_run) == (missing, not_run)


def test_cursors_are_read_from_the_data_folder_before_the_conf_folder(tmp_path: Path) -> None:
    cursor = '{"identity":{},"postion":{"journalName":"%s","position":4}}'
    data = tmp_path / "data" / "s"
    data.mkdir(parents=True)
    (data / "parse.dat").write_text(cursor % "data")
    server = "canal.destinations = s\ncanal.file.data.dir = ../data"
    found = written(tmp_path, server, s="canal.instance.master.address = a")
    assert found.instances[0].cursors[0].file == "data"
    (tmp_path / "conf" / "s" / "meta.dat").write_text(cursor % "conf")
    again = read_configuration(tmp_path / "conf", Surroundings())
    assert again.instances[0].cursors[0].file == "conf"
