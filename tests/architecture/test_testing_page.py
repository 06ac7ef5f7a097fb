"""The testing page, compared with the tests that are marked long."""

from __future__ import annotations

import re

from tests.architecture.tree import PROJECT

PAGE = PROJECT / "docs/testing.md"
TESTS = PROJECT / "tests"
_ROW = re.compile(r"^\| `([^`]+/test_\w+\.py)` \|", re.MULTILINE)
_MARK = re.compile(r"\bmark\.long\(")
_BY_FIXTURE = {
    "integration/process/story.py": ("integration/process/test_ddl_topic.py",),
    "unit/spark_sink/conftest.py": (
        "contract/test_columns.py",
        "contract/test_dead_letters.py",
        "contract/test_recent_changes.py",
        "contract/test_warehouses.py",
        "unit/spark_sink/warehouse/test_merge_range.py",
    ),
}
"""Files in which a fixture has the mark, and the tests that are long because of it."""


def long_files() -> list[str]:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if path.parent.name != "architecture" and _MARK.search(path.read_text())
    }
    return sorted({one for name in found for one in _BY_FIXTURE.get(name, (name,))})


def test_each_file_with_long_tests_has_a_row_and_each_row_has_some() -> None:
    assert _ROW.findall(PAGE.read_text()) == long_files()


def test_each_file_of_the_harness_has_a_row() -> None:
    found = re.findall(r"^\| `(\w+\.py)` \|", PAGE.read_text(), re.MULTILINE)
    files = [path.name for path in (TESTS / "harness").glob("*.py") if path.stem != "__init__"]
    assert sorted(found) == sorted(files)
