"""Records whose images were too large for their topic, fetched from the claim store.

Invariant: fetched images have the length and SHA-256 of their pointer, or their record has a reason why it
cannot be used. They are read on Spark's workers through Hadoop's file systems, as Spark's own files are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.errors import ClaimStoreUnreachable
from spark_sink.source.envelope import CLAIM, FIELDS, IMAGE, JSON_OPTIONS, MISFIT
from spark_sink.spark.files import Files, side_by_side

LOST: Final = "the claimed value is not in the claim store"
"""Begins the reason of a record whose value cannot be found, but may be put back."""
_DAMAGED: Final = "the claimed value is not the one that was stored"
_PARTS_OF_A_NAME: Final = 3
"""The last parts of a location are the name in its store: topic, day, SHA-256."""
_NAME: Final = "([^/]+/[^/]+/[0-9a-f]{64})[.]json$"
_FILES: Final = "path STRING, length BIGINT, content BINARY"
_IMAGES: Final = f"before {IMAGE}, after {IMAGE}"
_MISFIT: Final = (
    "(stored.before IS NOT NULL) <> (op IN ('u', 'd'))"
    " OR (stored.after IS NOT NULL) <> (op IN ('c', 'u', 'r'))"
)
_NO_S3A: Final = re.compile(
    r"ClassNotFoundException: (Class )?[\w.]*\bS3AFileSystem\b"
    r"|No FileSystem for scheme \W*s3"
    # hadoop-aws without the SDK.
    r"|NoClassDefFoundError: software/amazon/"
)
_THROWN: Final = re.compile(r"An error occurred while calling .*\n: (.+)")
_CAUSES: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_S3A: Final = (
    "Start the sink with hadoop-aws of Spark's own Hadoop among its jars, and with "
    "spark.hadoop.fs.s3a.endpoint where the bucket is not at AWS (docs/sink/storage.md); or set claim_checks "
    "to a copy that it can read"
)
_ACCESS: Final = (
    "Give the sink access to the claim store, or set claim_checks to its path; then start it again"
)
_BUCKET_ACCESS: Final = (
    "Check spark.hadoop.fs.s3a.endpoint and the credentials, which the sink does not read from everywhere that "
    "the worker does (docs/sink/storage.md#credentials). They need the rights to get objects and to list the "
    "bucket: without the latter, a store denies what it does not have"
)


class Claim(NamedTuple):
    """A value's location, size in bytes and SHA-256."""

    location: str
    size: int
    sha256: str


def path_of(claim: Claim, store: str) -> str:
    """Return the path to read; ``store`` is the store's path for the sink, or empty for the worker's own."""
    location = claim.location
    if store:
        name = location.split("/")[-_PARTS_OF_A_NAME:]
        return "/".join([_plain(_hadoop_s(store.rstrip("/"))), *map(_plain, name)])
    # Hadoop takes a path as it is, whereas a URI has special characters encoded.
    return _plain(unquote(location)) if location.startswith("file:") else _hadoop_s(location)


def _hadoop_s(path: str) -> str:
    """A path in a bucket with Hadoop's scheme, which is s3a; other programs use s3."""
    return path.replace("s3:", "s3a:", 1) if path.startswith("s3:") else path


def _plain(path: str) -> str:
    """A path in which the special characters of patterns are escaped."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def redeemed(batch: DataFrame, claims: Iterable[Claim], *, store: str) -> DataFrame:
    """Return a batch's records that are claims, with their images in place of the pointers.

    A record whose value is lost or damaged has a reason instead, see `envelope.FIELDS`. Raise
    ClaimStoreUnreachable.
    """
    paths = sorted({path_of(claim, store) for claim in claims})
    files = _read(batch.sparkSession, paths)
    named = files.selectExpr(f"regexp_extract(path, '{_NAME}', 1) AS name", "length", "content")
    pointers = batch.where("claim IS NOT NULL")
    # By the whole name: rows of two tables or days may have the same images.
    own = f.regexp_extract("claim.location", _NAME, 1)
    joined = pointers.join(named, own == named["name"], "left")
    is_whole = f.expr("length <=> claim.size AND sha2(content, 256) <=> claim.sha256")
    text = f.expr("if(is_whole, decode(content, 'UTF-8'), NULL)")
    found = joined.withColumn("is_whole", is_whole)
    found = found.withColumn("stored", f.from_json(text, _IMAGES, JSON_OPTIONS))
    reason = (
        "CASE WHEN reason IS NOT NULL THEN reason "
        f"WHEN length IS NULL THEN concat('{LOST}: ', claim.location) "
        f"WHEN NOT is_whole THEN concat('{_DAMAGED}: ', claim.location) "
        f"WHEN {_MISFIT} THEN '{MISFIT}' END"
    )
    changed = {
        "before": "stored.before",
        "after": "stored.after",
        "size": "coalesce(length, size)",
        "claim": f"CAST(NULL AS {CLAIM})",
        "reason": reason,
    }
    return found.selectExpr(*(f"{changed.get(name, f'`{name}`')} AS `{name}`" for name in FIELDS))


def _read(session: SparkSession, paths: list[str]) -> DataFrame:
    """The files that exist and can be opened, by path."""
    # A file may be removed while it is read.
    reader = session.read.format("binaryFile").option("ignoreMissingFiles", "true")
    try:
        return reader.load(paths)
    except (PySparkException, Py4JJavaError) as fault:
        # Spark reads no file if one is missing.
        there = _existing(session, paths)
        if len(there) == len(paths):
            raise _unreachable(str(fault), paths[0]) from fault
    if not there:
        return session.createDataFrame([], _FILES)
    try:
        return reader.load(there)
    except (PySparkException, Py4JJavaError) as fault:
        raise _unreachable(str(fault), there[0]) from fault


def _existing(session: SparkSession, paths: list[str]) -> list[str]:
    """The paths among these that exist. Raise ClaimStoreUnreachable."""
    files = Files(session)

    def exists(path: str) -> bool:
        try:
            return files.exists(re.sub(r"\\(.)", r"\1", path))
        except Py4JJavaError as fault:
            raise _unreachable(str(fault), path) from fault

    return [
        path for path, is_there in zip(paths, side_by_side(exists, paths), strict=True) if is_there
    ]


def _unreachable(message: str, path: str) -> ClaimStoreUnreachable:
    """The error for a store that cannot be read, from Java's message with its stack."""
    if _NO_S3A.search(message):
        return ClaimStoreUnreachable(
            f"{path}: this Spark has no file system for buckets", advice=_S3A
        )
    thrown = _THROWN.search(message)
    what = thrown[1] if thrown else " ".join(message.partition("JVM stacktrace")[0].split())
    # The exception names the path, and its last cause the reason.
    causes = _CAUSES.findall(message)
    why = f" (caused by {causes[-1][:300]})" if causes and causes[-1] not in what else ""
    advice = _BUCKET_ACCESS if path.startswith("s3a:") else _ACCESS
    return ClaimStoreUnreachable(f"{what[:300]}{why}", advice=advice)
