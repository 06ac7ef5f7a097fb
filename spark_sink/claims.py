"""Records whose values were too large for their topic, fetched from the claim store.

Law: a value is what its pointer says to the last bit, by length and SHA-256, or the batch stops; it is read on
Spark's workers through Hadoop's file systems, as Spark's own files are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from spark_sink.errors import ClaimLost
from spark_sink.wire import poison_sql

_PARTS_OF_A_NAME: Final = 3
"""The last parts of a location are the name in its store: topic, day, SHA-256."""
_DIGEST: Final = "([0-9a-f]{64})[.]json$"


class Claim(NamedTuple):
    """Where a value is, how long, and its SHA-256."""

    location: str
    size: int
    sha256: str


def path_of(claim: Claim, store: str) -> str:
    """The path to read; ``store`` is where the sink sees the store, or empty for as the worker says."""
    location = claim.location
    if store:
        name = location.split("/")[-_PARTS_OF_A_NAME:]
        return "/".join([_plain(store.rstrip("/")), *map(_plain, name)])
    # Hadoop takes a path as it is, where a URI has its odd characters encoded.
    return _plain(unquote(location)) if location.startswith("file:") else location


def _plain(path: str) -> str:
    """A path that is not taken for a pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def texts(batch: DataFrame, claims: Iterable[Claim], *, store: str) -> DataFrame:
    """The claimed values of a batch's records, in the columns that envelopes are parsed from."""
    paths = sorted({path_of(claim, store) for claim in claims})
    try:
        files = batch.sparkSession.read.format("binaryFile").load(paths)
    except AnalysisException as fault:
        raise ClaimLost(
            " ".join(str(fault).split())[:300],
            advice="Give the sink access to the claim store, or set claim_checks to its path",
        ) from fault
    named = files.selectExpr(f"regexp_extract(path, '{_DIGEST}', 1) AS digest", "length", "content")
    pointers = batch.where("claim IS NOT NULL").select("topic", "partition", "offset", "claim")
    joined = pointers.join(named, pointers["claim.sha256"] == named["digest"], "left")
    fault_sql = poison_sql("'the claimed value is not the one that was stored'")
    return joined.selectExpr(
        "topic",
        "partition",
        "offset",
        "if(length <=> claim.size AND sha2(content, 256) <=> claim.sha256, "
        f"decode(content, 'UTF-8'), {fault_sql}) AS text",
    )
