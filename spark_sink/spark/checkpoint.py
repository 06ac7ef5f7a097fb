"""The offsets and the owner of Spark's checkpoint.

Invariant: Spark's files are only read, or removed together where the ledger takes their place. The only file
written here is the sink's own, which names the prefix and the Kafka cluster.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError

from spark_sink.errors import CheckpointDamaged, ForeignCheckpoint
from spark_sink.spark.files import Files
from spark_sink.text.quoting import ORIGIN

_log = logging.getLogger(__name__)
_SPARKS = ("commits", "sources", "state", "metadata", "offsets")
_REMOVE = "Remove the checkpoint folder; the sink then starts from the warehouse's ledger"


class Checkpoint:
    """A folder that Spark's streaming query keeps its progress in."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def started(self) -> bool:
        """Whether a query has ever planned a batch here."""
        return bool(self._numbers("offsets"))

    def offsets(
        self, batch_id: int
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """(start, end) of a batch that Spark has planned."""
        before = self._planned(batch_id - 1) if batch_id > 0 else None
        end = self._planned(batch_id)
        if end is None:
            raise CheckpointDamaged(f"{self._path}/offsets/{batch_id} is missing", advice=_REMOVE)
        return before if before is not None else self.initial(), end

    def committed(self) -> dict[tuple[str, int], int]:
        """The offsets up to which Spark considers the topics applied; empty before the first batch."""
        done = self._numbers("commits")
        return (self._planned(done[-1]) or {}) if done else {}

    def initial(self) -> dict[tuple[str, int], int]:
        """The offsets at which the query's first batch began; empty if they are not stored."""
        text = self._files.read(f"{self._path}/sources/0/0")
        return parse_offsets(text or "", f"{self._path}/sources/0/0") if text else {}

    def known(self) -> dict[tuple[str, int], int]:
        """The partitions of the last planned batch, committed or not, with the offsets at its end."""
        planned = self._numbers("offsets")
        return {**self.initial(), **((self._planned(planned[-1]) or {}) if planned else {})}

    def check(self) -> None:
        """Raise CheckpointDamaged if a file that a start reads is incomplete, as after a power loss."""
        offsets, commits = self._newest("offsets"), self._newest("commits")
        for name in ("metadata", "sources/0/0", *offsets, *commits):
            path = f"{self._path}/{name}"
            if (text := self._text(path)) is None:
                continue
            if name in {"sources/0/0", *offsets}:
                parse_offsets(text, path)
            elif not is_whole(text):
                raise CheckpointDamaged(path, advice=_REMOVE)

    def make(self) -> None:
        """Make the folder."""
        self._files.make(self._path)

    def replace_if_damaged(self, origin: dict[str, str]) -> None:
        """Remove a checkpoint with incomplete files: the ledger has everything that it had."""
        noted = f"{self._path}/{ORIGIN}"
        try:
            check_origin(self._files, noted, origin)
            self.check()
        except CheckpointDamaged as fault:
            _log.warning("checkpoint damaged, so it is replaced file=%s", fault.where)
            self.forget()
            self._files.write(noted, json.dumps(origin))

    def forget(self) -> None:
        """Remove Spark's files; `offsets`, by which `started` recognizes a query, go last."""
        for name in _SPARKS:
            self._files.delete(f"{self._path}/{name}")

    def _planned(self, batch_id: int) -> dict[tuple[str, int], int] | None:
        path = f"{self._path}/offsets/{batch_id}"
        text = self._files.read(path)
        return None if text is None else parse_offsets(text, path)

    def _text(self, path: str) -> str | None:
        """A file's text; None if there is no file, empty if it is not what was written."""
        try:
            return self._files.read(path)
        except Py4JJavaError as fault:
            # On a local disk, Hadoop compares a file with a checksum of its own.
            if "ChecksumException" not in str(fault):
                raise
            return ""

    def _newest(self, folder: str) -> list[str]:
        """The last two files of a folder: a batch begins where the one before ended."""
        return [f"{folder}/{number}" for number in self._numbers(folder)[-2:]]

    def _numbers(self, folder: str) -> list[int]:
        names = self._files.names(f"{self._path}/{folder}")
        return sorted(int(name) for name in names if name.isdigit())


def is_whole(text: str) -> bool:
    """Whether a file of Spark's that contains a single JSON object is complete."""
    line = text.rstrip().rpartition("\n")[2]
    try:
        return isinstance(json.loads(line[line.find("{") :]), dict)
    except ValueError:
        return False


def parse_offsets(text: str, where: str) -> dict[tuple[str, int], int]:
    """The offsets in one of Spark's log files: its last line is `{topic: {partition: offset}}`."""
    lines = text.strip().splitlines()
    start = lines[-1].find("{") if lines else -1
    try:
        topics: Any = json.loads(lines[-1][start:]) if start >= 0 else None
        return {(t, int(p)): int(o) for t, ps in topics.items() for p, o in ps.items()}
    except (ValueError, AttributeError, TypeError):
        raise CheckpointDamaged(where, advice=_REMOVE) from None


class _Texts(Protocol):
    def read(self, path: str, /) -> str | None: ...

    def write(self, path: str, text: str, /) -> None: ...


def check_origin(files: _Texts, path: str, origin: dict[str, str], *, where: str = "") -> None:
    """Mark `path` as belonging to `origin` (prefix and cluster), or refuse the mark of another origin.

    `where` names the file in errors, if not `path`. Raise CheckpointDamaged and ForeignCheckpoint.
    """
    text, where = files.read(path), where or path
    if not text:
        # There is no mark yet, or a start that was killed here has left it empty.
        files.write(path, json.dumps(origin))
        return
    try:
        known = json.loads(text)
    except ValueError:
        raise CheckpointDamaged(where, advice="Delete that file; it is written again") from None
    different = [name for name in origin if known.get(name) != origin[name]]
    if different:
        raise ForeignCheckpoint(
            "; ".join(f"{n} is {origin[n]!r}, but {known.get(n)!r} in {where}" for n in different),
            advice="Give this sink a warehouse and a checkpoint of its own; offsets are valid only for one "
            "prefix and cluster",
        )
