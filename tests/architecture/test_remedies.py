"""Each error has a test that carries its remedy out, and the page of remedies is that of the code."""

from tests.architecture.remedies import (
    PAGE,
    current_page,
    errors_of,
    faults,
    marks_of,
    page,
    sources,
)
from tests.architecture.tree import module_from

ERRORS = '''
class AqueductError(Exception):
    """Aqueduct stopped."""

    # No remedy: the base class of all errors.
    remedy = ""


class Lost(AqueductError):
    """It is lost."""

    remedy = "Find " "it."


class Later(Lost):
    """It comes later."""
'''
TESTS = """
@pytest.mark.remedy("Lost")
def test_it_is_found(): ...


@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.remedy("Later"))])
async def test_it_comes(x): ...
"""


def test_the_remedy_of_each_error_is_carried_out_by_a_test() -> None:
    assert list(faults(errors_of(sources()), list(marks_of(sources())))) == []


def test_the_page_is_the_one_that_code_and_tests_give() -> None:
    assert PAGE.read_text() == current_page(), "run: python -m tests.architecture.remedies"


def test_an_error_with_a_test_or_a_reason_to_have_none_is_no_fault() -> None:
    assert planted() == []
    errors = errors_of([module_from("connectors/errors.py", ERRORS)])
    assert [(e.name, e.remedy, e.exempt) for e in errors] == [
        ("AqueductError", "", "the base class of all errors."),
        ("Lost", "Find it.", ""),
        ("Later", "Find it.", ""),
    ]


def test_an_error_without_a_test_is_found_wherever_it_is_defined() -> None:
    assert planted(tests="") == [
        "Lost has no test that carries its remedy out",
        "Later has no test that carries its remedy out",
    ]
    elsewhere = "class Other(Later): ...\nclass Lost(Exception): ..."
    assert planted(other=elsewhere) == ["Other has no test that carries its remedy out"]
    assert planted(other="class Lost(AqueductError): ...") == ["Lost is defined twice"]


def test_a_mark_that_names_no_error_or_is_at_no_test_is_found() -> None:
    assert planted(tests=TESTS.replace('"Lost"', '"Lots", "Lost"')) == [
        "tests/test_x.py::test_it_is_found names no error: 'Lots'"
    ]
    assert planted(tests=TESTS + 'pytestmark = pytest.mark.remedy("Lost")\n') == [
        "tests/test_x.py:8 names no error: ''"
    ]


def test_an_exempt_error_with_a_test_is_found() -> None:
    assert planted(tests=TESTS.replace('"Lost"', '"AqueductError", "Lost"')) == [
        "AqueductError has a test, and a reason to have none"
    ]


def test_the_page_changes_with_each_error_and_each_test() -> None:
    errors = errors_of([module_from("connectors/errors.py", ERRORS)])
    text = page(errors, [("Lost", "tests/test_x.py::test_it_is_found")], {})
    assert "| Lost | Find it. | `test_x.py::test_it_is_found` |" in text
    assert "| Later | Find it. | not yet |" in text
    assert "* AqueductError: the base class of all errors." in text


def planted(*, tests: str = TESTS, other: str = "") -> list[str]:
    """The faults of made-up errors and tests."""
    modules = [
        module_from("connectors/errors.py", ERRORS),
        module_from("app/x.py", other),
        module_from("tests/test_x.py", tests),
    ]
    return list(faults(errors_of(modules), list(marks_of(modules))))
