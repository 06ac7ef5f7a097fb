"""Whether Delta's commits exclude each other on a store.

Delta writes a commit as a file that must not exist yet. On HDFS, Azure, GCS and a disk, the store refuses the
second of two. For S3, Delta looks first and writes then, under a lock of its own JVM: of two processes, one
replaces what the other has committed, and neither notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_S3: Final = ("s3", "s3a", "s3n")
_OF_ONE_DRIVER: Final = "S3SingleDriverLogStore"


def excludes_writers(root: str, conf: Mapping[str, str]) -> bool:
    """Whether two processes may write tables below `root`, by Spark's options for Delta's log store.

    A log store that is set for S3, other than Delta's default, is trusted.
    """
    scheme, colon, _ = root.partition(":")
    if not colon or scheme not in _S3:
        return True
    of_scheme = conf.get(f"spark.delta.logStore.{scheme}.impl", "")
    store = of_scheme or conf.get("spark.delta.logStore.class", "")
    return bool(store) and not store.endswith(_OF_ONE_DRIVER)
