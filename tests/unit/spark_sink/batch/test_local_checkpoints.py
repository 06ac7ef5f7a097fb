"""What batches compute once is removed from Spark's memory and disk with the driver's garbage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own, as pytest keeps the frames of a warning, and so the rows of a batch.
_BATCHES = """
import gc, sys
from pathlib import Path

from spark_sink.settings.model import Settings
from spark_sink.spark import session
from tests.harness.wait import until
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

folder = Path(sys.argv[1])
given = {"prefix": "aq", "bootstrap_servers": "127.0.0.1:1", "warehouse": str(folder)}
spark = session.start(Settings(**given))
context = spark.sparkContext._jsc.sc()

def kept():
    # A list of the frames themselves, as getPersistentRDDs has it, would keep them.
    return len(list(context.getRDDStorageInfo()))

def is_removed():
    gc.collect()
    spark._jvm.System.gc()
    return kept() == 0

warehouse = Warehouse(spark, folder)
warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
for nth in range(6):
    warehouse.take(Change(op="c", seq=nth + 1, after={"id": nth, "v": nth}))
print("computed", kept() > 0)
until(is_removed, late=kept)
print("kept", kept())
session.close(spark)
"""


@pytest.mark.spark
def test_blocks_of_batches_are_removed_with_the_drivers_garbage(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BATCHES, str(tmp_path / "wh")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert ended.stdout.splitlines() == ["computed True", "kept 0"], ended.stderr
