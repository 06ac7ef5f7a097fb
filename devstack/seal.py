"""A quick check of whether a downloaded folder is complete.

A seal records each file's SHA-256, size and time of change. A file whose size and time are as
recorded counts as unchanged; any other is read again and must have the recorded SHA-256.
"""

import contextlib
import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devstack.processes import Children

_SEAL = "seal.json"


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_seal(folder: Path, *, about: dict[str, str]) -> None:
    """Seal all regular files of a folder; `about` identifies its origin."""
    files = {
        str(path.relative_to(folder)): {**_facts(path), "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    (folder / _SEAL).write_text(json.dumps({"about": about, "files": files}, indent=1))


def intact(folder: Path, *, about: dict[str, str] | None = None) -> bool:
    """Return whether a folder is sealed, complete, and (if asked) made from `about`."""
    try:
        seal = json.loads((folder / _SEAL).read_text())
        if about is not None and seal["about"] != about:
            return False
        return all(_unchanged(folder / name, facts) for name, facts in seal["files"].items())
    except (OSError, ValueError, KeyError):
        return False


def _unchanged(path: Path, facts: dict[str, Any]) -> bool:
    now = _facts(path)
    if now["size"] != facts["size"]:
        return False
    same_time: bool = now["mtime_ns"] == facts["mtime_ns"]
    return same_time or sha256(path) == facts["sha256"]


def _facts(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


@contextlib.contextmanager
def one_at_a_time(lock: Path, owner: Children) -> Iterator[None]:
    """Keep two processes from filling the same folder; the lock ends with its holder."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        while True:
            owner.check_open()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.2)
        yield
