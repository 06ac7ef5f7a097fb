"""Values written as YAML are the values that a YAML parser reads."""

from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.migrate.yaml_text import YamlText

TEXTS = st.text(max_size=12) | st.sampled_from(
    ["no", "1", "1e3", "~", "a: b", "# c", "'", "-", "="]
)
VALUES = TEXTS | st.integers() | st.booleans() | st.none() | st.lists(TEXTS, max_size=3).map(tuple)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES, min_size=1), max_size=4))
def test_a_yaml_parser_reads_the_values_that_were_put(found: dict[str, dict[str, object]]) -> None:
    document = YamlText()
    for name, inner in found.items():
        for key, value in inner.items():
            document.put((name, key), value, "the origin")  # type: ignore[arg-type]
    assert (yaml.safe_load(document.text(["head"])) or {}) == document.values()
