"""What the session refuses of what `spark-submit` was given."""

import pytest
from pyspark import SparkConf

from spark_sink import session
from spark_sink.errors import BadSettings


def test_what_spark_submit_says_against_exactness_is_refused_by_name() -> None:
    given = SparkConf(loadDefaults=False)
    given.set("spark.sql.session.timeZone", "UTC").set("spark.sql.shuffle.partitions", "7")
    session.refuse_others(given)
    given.set("spark.sql.variable.substitute", "true")
    with pytest.raises(BadSettings, match=r"variable\.substitute is true, and has to be false"):
        session.refuse_others(given)
