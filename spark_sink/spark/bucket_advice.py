"""Advice for the faults of a bucket, recognized in the errors of Hadoop's S3A.

Invariant: the advice names the setting or the command that helps; an unknown fault gets no advice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JError

from spark_sink.errors import WarehouseUnusable
from spark_sink.spark.error_mapping import cause

NO_S3A: Final = re.compile(
    r"ClassNotFoundException: (Class )?[\w.]*\bS3A(FileSystem)?\b"
    r"|No FileSystem for scheme \W*s3|No AbstractFileSystem .*s3"
    # hadoop-aws without the SDK.
    r"|NoClassDefFoundError: software/amazon/"
)
_FAULTS: Final = (
    (
        NO_S3A,
        "Run python -m devstack jars --s3, or put hadoop-aws of Spark's Hadoop into jars: docs/sink/storage.md",
    ),
    (
        re.compile(r"UnknownStoreException|NoSuchBucket|[Bb]ucket [^:]*does not exist"),
        "Create the bucket, or correct its name; if it is not at AWS, set spark.hadoop.fs.s3a.endpoint",
    ),
    (
        re.compile(
            r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Status Code: 40[13]"
            r"|NoAuthWithAWSException|NoAwsCredentialsException|[Cc]redentials"
        ),
        "Check the credentials, and that they may list, read, write and delete there (docs/sink/storage.md)",
    ),
    (
        re.compile(
            r"UnknownHostException|ConnectException|ConnectTimeout|NoHttpResponseException|SocketTimeoutException"
            r"|NoRouteToHost|Connection refused|Unable to execute HTTP request|AWSClientIOException"
        ),
        "Check spark.hadoop.fs.s3a.endpoint in spark_options, and the network",
    ),
)


def advice(text: str) -> str:
    """The advice for an error of a bucket, from its text with all causes; empty if the fault is unknown."""
    return next((found for symptom, found in _FAULTS if symptom.search(text)), "")


def make_folder(folder: str, make: Callable[[], None]) -> None:
    """Make a folder. Raise WarehouseUnusable."""
    try:
        make()
    except Py4JError as fault:
        raise unusable(folder, fault) from fault


def unusable(folder: str, fault: Exception) -> WarehouseUnusable:
    """The error for a folder of the warehouse or the checkpoint that cannot be read or made."""
    text = str(fault)
    return WarehouseUnusable(
        f"{folder}: {cause(text)}",
        advice=advice(text)
        or "Set warehouse (and checkpoint) to a folder that the sink can write to",
    )
