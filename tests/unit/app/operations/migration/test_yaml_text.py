from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.operations.migration.yaml_text import YamlText

TEXTS = st.text(max_size=12) | st.sampled_from(
    ["no", "1", "1e3", "~", "a: b", "# c", "'", "-", "="]
)
VALUES = TEXTS | st.integers() | st.booleans() | st.none() | st.lists(TEXTS, max_size=3).map(tuple)


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES, min_size=1), max_size=4))
def test_a_yaml_parser_reads_the_values_that_were_put(found: dict[str, dict[str, object]]) -> None:
    document = YamlText()
    for name, inner in found.items():
        for key, value in inner.items():
            document.put((name, key), value, "the origin")  # type: ignore[arg-type]
    assert (yaml.safe_load(document.text(["head"])) or {}) == document.values()


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
