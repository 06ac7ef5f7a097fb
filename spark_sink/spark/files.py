"""Small text files wherever the warehouse is (a disk, HDFS, an object store), and requests in parallel.

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
"""The file systems that show a file while it is being written, and rename in one step."""


_AT_A_TIME: Final = 16
"""The number of parallel requests; each request to a bucket takes some 30 ms."""
Of = TypeVar("Of")
Answer = TypeVar("Answer")


def side_by_side(ask: Callable[[Of], Answer], of: Sequence[Of]) -> list[Answer]:
    """Return what `ask` returns for each, in order, from parallel calls; raise the first of their errors."""
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

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        where, system = self._at(path)
        return bool(system.exists(where))

    def read(self, path: str) -> str | None:
        """The file's text; None if there is no file."""
        where, system = self._at(path)
        if not system.exists(where):
            return None
        try:
            stream = system.open(where)
        except Py4JJavaError:
            # The file may have been removed since.
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
        """The file's first line, reading little more than that line; None if there is no file."""
        where, system = self._at(path)
        if not system.exists(where):
            return None
        stream = system.open(where)
        try:
            # Not java.util.Scanner: it also ends a line at characters that texts in JSON may contain.
            decoded = java_class(self._jvm, "java.io.InputStreamReader")(stream, "UTF-8")
            line = java_class(self._jvm, "java.io.BufferedReader")(decoded).readLine()
            return "" if line is None else str(line)
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Create or replace the file in one step: a reader finds the earlier text or this one, complete."""
        where, system = self._at(path)
        if system.getScheme() not in _RENAMED:
            # An object store shows a file only once it is closed.
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
        """Create the file in one step: a reader finds all of it or no file. Raise OSError if it exists."""
        where, system = self._at(path)
        part = _part_of(where)
        self._create(part, text)
        if not system.rename(self._at(part)[0], where):
            self.delete(part)
            raise OSError(f"{path} exists, or cannot be written")

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order; empty if there is no folder."""
        pattern = re.sub(r"([\\\[\]{}*?])", r"\\\1", folder)
        where, system = self._at(f"{pattern}/*")
        # Not listStatus: for a bucket it returns an array of a special class, which Py4J passes to no method.
        found = system.globStatus(where)
        paths = java_class(self._jvm, "org.apache.hadoop.fs.FileUtil").stat2Paths(found)
        if not len(paths):
            return []
        # One call of the JVM for all names: a call for each name takes seconds for a log of thousands.
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
        """Remove a file, or a folder with everything in it, if it exists."""
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
    """The path, in the same folder, of the file that is written first and then renamed."""
    return f"{where.getParent().toString()}/.{where.getName()}-{uuid.uuid4().hex}"
