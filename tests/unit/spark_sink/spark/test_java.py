"""Classes and collections of a real JVM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.spark.java import java_class, matching, texts

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def collection(jvm: Any, values: Iterable[str]) -> Any:
    made = java_class(jvm, "java.util.TreeSet")()
    for value in values:
        made.add(value)
    return made


def test_texts_of_a_collection_come_in_its_order(spark: SparkSession) -> None:
    assert texts(spark._jvm, collection(spark._jvm, ["b", "a", "c.d"])) == ["a", "b", "c.d"]
    assert texts(spark._jvm, collection(spark._jvm, [])) == []


def test_a_pattern_matches_whole_texts_by_java_s_rules(spark: SparkSession) -> None:
    held = collection(spark._jvm, ["aq.shop.t", "aq.shop.t2", "aq.__ddl.shop", "other"])
    kept = matching(spark._jvm, r"aq\.(?!__)[\w.]+", held)
    assert texts(spark._jvm, kept) == ["aq.shop.t", "aq.shop.t2"]
    # The collection itself stays as it was.
    assert held.size() == 4
