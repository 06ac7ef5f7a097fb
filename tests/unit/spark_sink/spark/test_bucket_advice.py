"""The advice for a bucket that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError

from spark_sink.errors import WarehouseUnusable
from spark_sink.spark.bucket_advice import advice, unusable
from spark_sink.warehouse import opening

THROWN = "An error occurred while calling o61.mkdirs.\n: "
FRAMES = "\n\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:265)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            (
                "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
                "org.apache.hadoop.fs.s3a.S3AFileSystem not found"
            ),
            "devstack jars --s3",
        ),
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"',
            "devstack jars --s3",
        ),
        (
            "java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException",
            "devstack jars --s3",
        ),
        (
            (
                "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://absent/wh': getFileStatus on "
                "s3a://absent/wh: software.amazon.awssdk.services.s3.model.NoSuchBucketException: The "
                "specified bucket does not exist (Service: S3, Status Code: 404)"
            ),
            "Create the bucket",
        ),
        (
            (
                "java.nio.file.AccessDeniedException: s3a://lake/wh: getFileStatus on s3a://lake/wh: "
                "software.amazon.awssdk.services.s3.model.S3Exception: Forbidden (Status Code: 403)"
            ),
            "Check the credentials",
        ),
        (
            (
                "java.nio.file.AccessDeniedException: lake: org.apache.hadoop.fs.s3a.auth."
                "NoAuthWithAWSException: No AWS Credentials provided by TemporaryAWSCredentialsProvider"
            ),
            "Check the credentials",
        ),
        (
            (
                "org.apache.hadoop.fs.s3a.AWSClientIOException: getFileStatus on s3a://lake/wh: software."
                "amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connect to "
                "127.0.0.1:1 failed: Connection refused"
            ),
            "Check spark.hadoop.fs.s3a.endpoint",
        ),
        ("java.io.IOException: No space left on device", ""),
    ],
)
def test_each_fault_has_its_advice(text: str, found: str) -> None:
    described = advice(f"{THROWN}{text}{FRAMES}")
    assert found in described
    assert bool(found) == bool(described)


def test_a_warehouse_whose_format_cannot_be_read_has_the_advice_of_its_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(*_: object) -> None:
        raise Py4JError(f"{THROWN}UnknownStoreException: `s3a://absent/wh': NoSuchBucket{FRAMES}")

    monkeypatch.setattr(opening, "_made", made)
    monkeypatch.setattr(opening, "Files", lambda _: None)
    session: Any = None
    with pytest.raises(WarehouseUnusable) as found:
        opening.open_warehouse(session, "s3a://absent/wh")
    assert "s3a://absent/wh: UnknownStoreException" in str(found.value)
    assert "Create the bucket" in found.value.advice


def test_a_folder_of_no_known_fault_is_to_be_replaced() -> None:
    found = unusable("/wh", Py4JError(f"{THROWN}java.io.IOException: No space left on device"))
    assert found.where == "/wh: java.io.IOException: No space left on device"
    assert "that the sink can write to" in found.advice
