from collections.abc import Iterable

import pytest

from tests.architecture.imports import (
    HOMES,
    ROOMS,
    cycles,
    folder_cycles,
    format_breaches,
    homeless,
    layer_breaches,
    room_breaches,
)
from tests.architecture.tree import Module, module_from, modules

PACKAGE_FINDS_ITS_APP = "app.worker.assembly"
"""`app.__getattr__` imports it when Faust asks for the app (PEP 562), never while modules load."""


def test_imports_go_one_way_and_the_sink_stands_alone() -> None:
    assert list(layer_breaches(modules())) == []


def test_imports_between_the_rooms_of_a_package_go_one_way() -> None:
    assert list(room_breaches(modules())) == []


@pytest.mark.parametrize("package", ROOMS)
def test_each_folder_of_a_package_is_a_room(package: str) -> None:
    paths = (module.file.path.split("/") for module in modules())
    assert {path[1] for path in paths if path[0] == package and path[2:]} <= ROOMS[package].keys()


@pytest.mark.parametrize(
    ("path", "text", "breach"),
    [
        ("app/audit/wrong.py", "from app.worker.destination import plan\n", "app.worker"),
        ("app/audit/topics/wrong.py", "from app import metrics\n", "app.metrics"),
        (
            "app/worker/destination/wrong.py",
            "from app.audit.truth.window import Window\n",
            "app.audit",
        ),
        ("app/migrate/canal/wrong.py", "import app.operator.commands\n", "app.operator"),
        ("app/worker/merge/wrong.py", "def f():\n    from app import operator\n", "app.operator"),
        ("app/settings/wrong.py", "from ..worker import wiring\n", "app.worker"),
        ("tables/rules/wrong.py", "from tables.state.cursor import Cursor\n", "tables.state"),
        ("spark_sink/batch/wrong.py", "import spark_sink.jobs.reload\n", "spark_sink.jobs"),
    ],
)
def test_a_room_that_imports_one_above_it_is_found(path: str, text: str, breach: str) -> None:
    assert list(room_breaches([module_from(path, text)])) == [f"{path} imports {breach}"]


def test_no_modules_import_each_other() -> None:
    assert list(cycles(_without_the_entrance(modules()))) == []


def test_no_folders_import_each_other() -> None:
    assert list(folder_cycles(_without_the_entrance(modules()))) == []


def test_folders_that_import_each_other_are_found() -> None:
    planted = [
        module_from("app/worker/one/a.py", "from app.worker.two.cursor import b\n"),
        module_from("app/worker/two/cursor/b.py", "from app.worker.two import c\n"),
        module_from("app/worker/two/c.py", "from app.worker.one import d\n"),
        module_from("app/worker/one/d.py", ""),
    ]
    assert list(folder_cycles(planted)) == ["app/worker: one <-> two"]
    planted.append(module_from("app/worker/two/journal/e.py", "from app.worker.two import c\n"))
    planted[2] = module_from("app/worker/two/c.py", "from app.worker.two.journal import e\n")
    assert list(folder_cycles(planted)) == ["app/worker/two: c <-> journal"]


def test_each_library_is_imported_in_its_home_only() -> None:
    assert list(homeless(modules())) == []


def test_only_its_own_folder_knows_a_table_format() -> None:
    assert list(format_breaches(modules())) == []


def test_temporary_views_are_named_in_one_place() -> None:
    naming = {"createOrReplaceTempView", "createTempView", "registerTempTable"}
    naming |= {"createGlobalTempView", "createOrReplaceGlobalTempView"}
    found = {
        one.name for one in modules() if one.name.startswith("spark_sink.") and naming & one.names()
    }
    # The latter are views that a reader asks for, by names of the reader's.
    assert found == {"spark_sink.spark.jobs", "spark_sink.views.cuts.views"}


def test_a_batch_that_knows_a_table_format_is_found() -> None:
    planted = [
        module_from("spark_sink/batch/a.py", "from delta.tables import DeltaTable\n"),
        module_from("spark_sink/batch/b.py", "from spark_sink.warehouse.delta import current\n"),
        module_from("spark_sink/batch/c.py", 'spark.sql(f"DELETE FROM {table} WHERE x")\n'),
        module_from("spark_sink/jobs/load/d.py", 'spark.read.format("delta").load(path)\n'),
        module_from("spark_sink/jobs/load/e.py", 'files.names(f"{path}/_delta_log")\n'),
        module_from("spark_sink/warehouse/delta/f.py", 'sql("OPTIMIZE delta.`x`")\n'),
    ]
    found = {line.split()[0].rpartition("/")[2] for line in format_breaches(planted)}
    assert sorted(found) == ["a.py", "b.py", "c.py", "d.py", "e.py"]


def test_a_connector_that_imports_the_app_is_found() -> None:
    planted = module_from("connectors/kafka/wrong.py", "from app import metrics\n")
    assert list(layer_breaches([planted])) == ["connectors/kafka/wrong.py imports app"]


@pytest.mark.parametrize("package", ["app", "tables", "connectors", "spark_sink"])
def test_the_client_that_imports_the_worker_or_the_sink_is_found(package: str) -> None:
    planted = module_from("aqueduct_client/wrong.py", f"import {package}\n")
    assert list(layer_breaches([planted])) == [f"aqueduct_client/wrong.py imports {package}"]


@pytest.mark.parametrize("module", ["connectors.errors", "spark_sink", "aqueduct_client", "orjson"])
def test_the_wire_contract_that_imports_more_than_the_standard_library_is_found(
    module: str,
) -> None:
    planted = [module_from("wire/wrong.py", f"import {module}\n")]
    found = [*layer_breaches(planted), *homeless(planted)]
    assert found == [f"wire/wrong.py imports {module.partition('.')[0]}"]


def test_an_import_within_a_function_is_found_too() -> None:
    planted = module_from(
        "tables/wrong.py", "def f() -> None:\n    import app.worker.unit.retry_policy\n"
    )
    assert list(layer_breaches([planted])) == ["tables/wrong.py imports app"]


def test_the_sink_that_imports_a_connector_is_found() -> None:
    planted = module_from("spark_sink/wrong.py", "from connectors import secret\n")
    assert list(layer_breaches([planted])) == ["spark_sink/wrong.py imports connectors"]


def test_the_product_that_imports_the_servers_or_tests_is_found() -> None:
    planted = module_from("app/wrong.py", "import devstack\nimport tests.conftest\n")
    assert list(layer_breaches([planted])) == [
        "app/wrong.py imports devstack",
        "app/wrong.py imports tests",
    ]


def test_a_relative_import_is_followed() -> None:
    planted = module_from("connectors/kafka/wrong.py", "from ... import app\n")
    assert list(planted.imports()) == [("", "app")]
    near = module_from("connectors/kafka/near.py", "from . import topics\nfrom .. import wire\n")
    assert list(near.imports()) == [("connectors.kafka", "topics"), ("connectors", "wire")]


def test_demo_devstack_and_tests_may_import_all() -> None:
    planted = [
        module_from("demo/fine.py", "import app.worker.unit.retry_policy, spark_sink, pyspark\n"),
        module_from("tests/fine.py", "import connectors.secret, kazoo\n"),
    ]
    assert [*layer_breaches(planted), *homeless(planted)] == []


def test_a_library_outside_its_home_is_found() -> None:
    planted = [
        module_from("connectors/mysql/wrong.py", "import aiokafka.errors\n"),
        module_from("app/wrong.py", "from prometheus_client import Counter\n"),
        module_from("connectors/mysql/rows/decoder.py", "import sqlglot\n"),
        module_from("tables/rules/mapping/row_filter.py", "import sqlglot\n"),
    ]
    assert list(homeless(planted)) == [
        "connectors/mysql/wrong.py imports aiokafka",
        "app/wrong.py imports prometheus_client",
        "connectors/mysql/rows/decoder.py imports sqlglot",
    ]


def test_a_library_without_a_home_is_found() -> None:
    planted = module_from("app/wrong.py", "import requests\n")
    assert list(homeless([planted])) == ["app/wrong.py imports requests"]
    assert "requests" not in HOMES


def test_a_round_of_three_is_found() -> None:
    planted = [
        module_from("tables/a.py", "from tables import b\n"),
        module_from("tables/b.py", "import tables.c\n"),
        module_from("tables/c.py", "def f() -> None:\n    from tables.a import x\n"),
        module_from("tables/d.py", "from tables import a\n"),
    ]
    assert list(cycles(planted)) == ["tables.a <-> tables.b <-> tables.c"]


def _without_the_entrance(found: Iterable[Module]) -> list[Module]:
    """All modules, without the one import that the package makes on demand."""
    line = f"from {PACKAGE_FINDS_ITS_APP} import app_from_environment"
    changed = []
    for module in found:
        if module.file.path == "app/__init__.py":
            assert module.file.text.count(line) == 1
            text = module.file.text.replace(line, "pass")
            changed.append(module_from(module.file.path, text))
        else:
            changed.append(module)
    return changed
