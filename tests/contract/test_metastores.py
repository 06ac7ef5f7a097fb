"""What every metastore does: the one in memory, and Hive's with Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack import java
from devstack.hive_metastore import HiveMetastore
from devstack.processes import Children
from spark_sink.jobs.metastore import Metastore
from tests.harness.memory_metastore import MemoryMetastore

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
Made = Callable[[str], str]
"""Makes a table with a row of id 1 and returns its location."""


@pytest.fixture(
    params=[
        "memory",
        pytest.param("hive", marks=[pytest.mark.spark, pytest.mark.long("the one in memory")]),
    ]
)
def metastore(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Metastore, Made]]:
    if request.param == "memory":
        yield MemoryMetastore(), lambda name: f"{tmp_path}/{name}"
        return
    from spark_sink.settings.model import Metastore as MetastoreSettings
    from spark_sink.settings.model import Settings
    from spark_sink.spark import session
    from spark_sink.warehouse.opening import open_metastore

    owner = Children()
    try:
        with HiveMetastore(
            tmp_path / "hive", java=java.find_or_install(owner), owner=owner
        ) as real:
            settings = Settings(
                prefix="aq",
                bootstrap_servers="127.0.0.1:1",
                warehouse=str(tmp_path / "wh"),
                metastore=MetastoreSettings(uri=real.uri),
            )
            spark = session.start(settings)

            def made(name: str) -> str:
                path = f"{tmp_path}/{name}"
                spark.sql("SELECT 1 AS id").write.format("delta").save(path)
                return path

            yield open_metastore(spark, settings.metastore), made
            session.close(spark)
    finally:
        owner.close()


def test_tables_and_views_are_made_found_replaced_and_removed(
    metastore: tuple[Metastore, Made],
) -> None:
    held, made = metastore
    assert held.names("shop") == set()
    assert held.is_at(("shop", "t"), "/nowhere") is None
    place = made("t")
    for _ in range(2):
        held.register(("shop", "t"), place)
        held.put_view(("shop_current", "t"), "SELECT id FROM shop.t WHERE id = 0", place)
    held.put_view(("shop_current", "t"), "SELECT id FROM shop.t", place)
    assert held.names("shop") == held.names("shop_current") == {"t"}
    for database in ("shop", "shop_current"):
        assert held.is_at((database, "t"), place) is True
        assert held.is_at((database, "t"), f"{place}2") is False
    for name in (("shop_current", "t"), ("shop", "t"), ("shop", "t"), ("no", "t")):
        held.remove(name)
    assert held.names("shop") == held.names("shop_current") == set()
    assert held.is_at(("shop", "t"), place) is None
