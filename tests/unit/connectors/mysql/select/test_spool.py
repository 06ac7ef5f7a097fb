"""Spooled rows: read as they were added, in memory or from a file without a name, within limits."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.errors import SnapshotUnsupported, SpoolFull
from connectors.mysql.select import spool as module
from connectors.mysql.select.spool import Spool, Spools

NAME = ("shop", "log")
PORTIONS = ((b"a" * 40, b"b"), (b"c" * 50,), (), (b"d" * 60, b"", b"e"))


def filled(folder: Path, *, most_bytes: int = 1_000) -> Spool:
    spool = Spool(Spools(folder=folder, most_bytes=most_bytes), NAME)
    try:
        for rows, blocks in enumerate(PORTIONS):
            spool.add(blocks, rows)
    except SnapshotUnsupported:
        spool.close()
        raise
    return spool


def files_of_this_process(folder: Path) -> list[Path]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(one.readlink())
    return [one for one in found if folder in one.parents]


@pytest.mark.parametrize("in_memory", [0, 60, 100, 10_000])
def test_portions_are_read_as_they_were_added_and_gone_once_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
    spool = filled(tmp_path)
    assert [spool.blocks(at) for at in (3, 0, 2, 1)] == [PORTIONS[at] for at in (3, 0, 2, 1)]
    assert [spool.rows_of(at) for at in range(len(spool))] == [0, 1, 2, 3]
    assert (spool.rows, spool.bytes) == (6, 152)
    is_filed = in_memory < 152
    assert len(files_of_this_process(tmp_path)) == int(is_filed)
    assert list(tmp_path.iterdir()) == []
    spool.close()
    assert [spool.blocks(at) for at in range(4)] == [None] * 4
    assert files_of_this_process(tmp_path) == []
    spool.close()


def test_more_rows_than_it_may_have_are_refused_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(SnapshotUnsupported) as raised:
        filled(tmp_path, most_bytes=151)
    assert "more than 0 MiB of rows" in raised.value.detail
    assert "snapshot.max_spool_bytes" in raised.value.advice
    assert raised.value.context["table"] == "shop.log"
    filled(tmp_path, most_bytes=152).close()


def test_a_folder_without_room_is_refused_with_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 300 << 20
    monkeypatch.setattr(
        "os.statvfs", lambda _: SimpleNamespace(f_bavail=free // 4096, f_frsize=4096)
    )
    spool = Spool(Spools(folder=tmp_path), NAME)
    spool.expect(None)
    spool.expect(40 << 20)
    with pytest.raises(SpoolFull) as raised:
        spool.expect(50 << 20)
    assert "about 50 MiB of rows by the server's estimate" in raised.value.detail
    assert "has 300 MiB free, of which 256 MiB stay free" in raised.value.detail
    assert "snapshot.spool_dir" in raised.value.advice
    assert raised.value.context["folder"] == str(tmp_path)
    # An estimate may be too small: what is written counts.
    monkeypatch.setattr(module, "IN_MEMORY", 100)
    free = 256 << 20
    with pytest.raises(SnapshotUnsupported, match="and more to come"):
        filled(tmp_path)
    # A table that needs no file needs no room.
    monkeypatch.setattr(module, "IN_MEMORY", 152)
    filled(tmp_path).close()


def test_a_folder_that_cannot_be_written_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IN_MEMORY", 0)
    with pytest.raises(SnapshotUnsupported, match="No such file or directory") as raised:
        filled(tmp_path / "none")
    assert "snapshot.spool_dir" in raised.value.advice
