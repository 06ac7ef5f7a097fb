from __future__ import annotations

import yaml

from app.migrate.yaml_text import YamlText


def test_items_of_a_list_are_mappings_and_a_second_value_is_refused() -> None:
    document = YamlText()
    assert document.put(("a", 0, "b"), 1, "x")
    assert document.put(("a", 0, "c", "d"), 2)
    assert document.put(("a", 1, "b"), 3)
    assert not document.put(("a", 1, "b"), 4)
    assert document.text(["head"]) == (
        "# head\n\na:\n  - b: 1  # x\n    c:\n      d: 2\n  - b: 3\n"
    )
    assert yaml.safe_load(document.text()) == document.values()
    assert document.deepest(("a", 1, "(label)", "b", "x")) == ("a", 1, "b")
    assert [leaf.value for leaf in document.remove(("a", 0))] == [1, 2]
