"""Whether two processes may write to a warehouse, by its store."""

from __future__ import annotations

import pytest

from spark_sink.warehouse.delta.warehouse import excludes_writers

SINGLE = "io.delta.storage.S3SingleDriverLogStore"
SEVERAL = "io.delta.storage.S3DynamoDBLogStore"


@pytest.mark.parametrize("root", ["/wh", "file:/wh", "hdfs://n/wh", "abfss://c@a/wh", "gs://b/wh"])
def test_most_stores_refuse_the_second_commit_of_a_version(root: str) -> None:
    assert excludes_writers(root, {})


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_on_s3_it_depends_on_the_log_store(scheme: str) -> None:
    root, option = f"{scheme}://lake/wh", f"spark.delta.logStore.{scheme}.impl"
    assert not excludes_writers(root, {})
    assert not excludes_writers(root, {option: SINGLE})
    assert not excludes_writers(root, {"spark.delta.logStore.class": SINGLE})
    assert excludes_writers(root, {option: SEVERAL})
    assert excludes_writers(root, {"spark.delta.logStore.class": SEVERAL})
    # That of the scheme wins.
    assert not excludes_writers(root, {option: SINGLE, "spark.delta.logStore.class": SEVERAL})
