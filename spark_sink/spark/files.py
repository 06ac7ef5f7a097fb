"""Small text files wherever the warehouse is: a disk, HDFS, an object store; and many requests at a time.

Invariant: everything goes through Hadoop's file systems, as Spark's own files do.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_sink.spark.java import java_class

_RENAMED: Final = frozenset({"file", "hdfs"})
"""The file systems in which a file that is being written is seen, and a rename is one step."""


_AT_A_TIME: Final = 16
"""Requests; of a bucket, each takes some 30 ms."""
Of = TypeVar("Of")
Answer = TypeVar("Answer")


def side_by_side(ask: Callable[[Of], Answer], of: Sequence[Of]) -> list[Answer]:
    """What `ask` returns for each, in order, with many requests at a time; raise the first one's error."""
    if len(of) < 2:
        return [ask(one) for one in of]
    with ThreadPoolExecutor(min(_AT_A_TIME, len(of))) as pool:
        return list(pool.map(ask, of))


class Files:
    """Reads, writes and lists by path or URI."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._conf = spark._jsc.hadoopConfiguration()

    def read(self, path: str) -> str | None:
        """The file's text; None where there is none."""
        where, system = self._at(path)
        if not system.exists(where):
            return None
        try:
            stream = system.open(where)
        except Py4JJavaError:
            # It may have been removed just then.
            if system.exists(where):
                raise
            return None
        try:
            return str(
                java_class(self._jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
            )
        finally:
            stream.close()

    def first_line(self, path: str) -> str | None:
        """The file's first line, without reading more of it than a buffer; None where there is none."""
        where, system = self._at(path)
        if not system.exists(where):
            return None
        stream = system.open(where)
        try:
            # Not java.util.Scanner, for which a line ends at characters that JSON may have in texts.
            decoded = java_class(self._jvm, "java.io.InputStreamReader")(stream, "UTF-8")
            line = java_class(self._jvm, "java.io.BufferedReader")(decoded).readLine()
            return "" if line is None else str(line)
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make or replace the file in one step: a reader finds all of the earlier text, or of this one."""
        where, system = self._at(path)
        if system.getScheme() not in _RENAMED:
            # An object store shows what was written when it is closed.
            self._create(path, text)
            return
        part = _part_of(where)
        self._create(part, text)
        contexts = java_class(self._jvm, "org.apache.hadoop.fs.FileContext")
        options = java_class(self._jvm, "org.apache.hadoop.fs.Options$Rename")
        overwrite = self._gateway.new_array(options, 1)
        overwrite[0] = options.OVERWRITE
        source = self._at(part)[0]
        contexts.getFileContext(system.getUri(), self._conf).rename(source, where, overwrite)

    def put(self, path: str, text: str) -> None:
        """Make the file in one step: a reader finds all of it or no file. Fails if it exists."""
        where, system = self._at(path)
        part = _part_of(where)
        self._create(part, text)
        if not system.rename(self._at(part)[0], where):
            self.delete(part)
            raise OSError(f"{path} exists, or cannot be written")

    def names(self, folder: str) -> list[str]:
        """What a folder holds; empty where there is no folder."""
        pattern = re.sub(r"([\\\[\]{}*?])", r"\\\1", folder)
        where, system = self._at(f"{pattern}/*")
        # Not listStatus: of a bucket it returns an array of its own class, which Py4J gives to no method.
        found = system.globStatus(where)
        paths = java_class(self._jvm, "org.apache.hadoop.fs.FileUtil").stat2Paths(found)
        if not len(paths):
            return []
        # One call of the JVM for all of them: one for each takes seconds for a log of thousands.
        text = str(java_class(self._jvm, "org.apache.commons.lang3.ArrayUtils").toString(paths))
        parent = str(paths[0].getParent().toString()).rstrip("/")
        return sorted(f",{text[1:-1]}".split(f",{parent}/")[1:])

    def make(self, folder: str) -> None:
        """Make a folder and prove that a file can be written there."""
        where, system = self._at(folder)
        system.mkdirs(where)
        probe = f"{folder}/.probe-{uuid.uuid4().hex}"
        self._create(probe, "")
        self.delete(probe)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all in it; nothing where there is none."""
        where, system = self._at(path)
        system.delete(where, True)

    def _create(self, path: str, text: str) -> None:
        where, system = self._at(path)
        stream = system.create(where, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _at(self, path: str) -> tuple[Any, Any]:
        where = java_class(self._jvm, "org.apache.hadoop.fs.Path")(path)
        return where, where.getFileSystem(self._conf)


def _part_of(where: Any) -> str:
    """The path of a file that is written first, beside the one that it becomes."""
    return f"{where.getParent().toString()}/.{where.getName()}-{uuid.uuid4().hex}"
