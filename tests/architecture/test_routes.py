"""Only the routes derive a topic's name from a table's, so that all who publish or judge agree on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.architecture.tree import Module, module_from, modules

MAKER = "row_topic"
HOME = "tables.rules.routes.routes"
ALLOWED = (
    HOME,
    "aqueduct_client.table_topics",  # the client knows the wire contract alone
    "tests.unit.wire.test_topics",
    "tests.properties.test_wire",
)


def derived_elsewhere(found: Iterable[Module]) -> Iterator[str]:
    """Modules beside the routes, the client and the maker's own tests that use what makes a topic's name."""
    for module in found:
        if module.name in ALLOWED:
            continue
        names = module.names()
        if (MAKER in names and module.name != "wire.topics") or "_encoded" in (
            name for source, name in module.imports() if source == "wire.topics"
        ):
            yield f"{module.file.path} derives the topic of a table"


def test_only_the_routes_derive_the_topic_of_a_table() -> None:
    assert list(derived_elsewhere(modules())) == []
    (home,) = (module for module in modules() if module.name == HOME)
    assert ("wire.topics", MAKER) in home.imports()


def test_another_module_that_derives_one_is_found_however_it_names_the_function() -> None:
    planted = [
        module_from("app/one.py", "from wire.topics import row_topic\n"),
        module_from("app/two.py", "from wire import topics\n\nx = topics.row_topic\n"),
        module_from("tests/three.py", "from wire.topics import row_topic as made\n"),
        module_from("bench/four.py", "from wire.topics import _encoded\n"),
        module_from("app/fine.py", "from wire.topics import ddl_topic\n"),
    ]
    assert [text.partition(" ")[0] for text in derived_elsewhere(planted)] == [
        "app/one.py",
        "app/two.py",
        "tests/three.py",
        "bench/four.py",
    ]
