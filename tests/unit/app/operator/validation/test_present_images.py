"""An image of an earlier version is compared in the columns that its table has now."""

from __future__ import annotations

from typing import Any

from app.operator.validation.present_images import PresentImages
from tables.history.present_columns import Versions
from tests.unit.app.operator.validation.records import (
    NAME,
    PLAIN,
    column,
    definition,
    images,
    version,
)
from wire.table_version import Column, Definition


def versions(*definitions: Definition) -> Versions:
    return {(*NAME, number): version(one) for number, one in enumerate(definitions, start=1)}


def image_of(found: PresentImages, number: int, **values: Any) -> dict[str, Any]:
    own = found.of(number)
    assert own is not None
    assert (own.undetermined, own.doubt) == (None, None)
    return own.image(values)


def with_column(*more: Column) -> Definition:
    return definition(column("id"), column("V"), *more)


def test_names_are_compared_without_regard_to_case() -> None:
    assert image_of(images(), 1, ID=1, v=2) == {"id": 1, "v": 2}


def test_a_column_that_was_added_has_what_the_server_gave_it() -> None:
    now = with_column(column("w", id="w@1", initial={"value": 5}))
    found = images(versions(PLAIN, now), now)
    assert image_of(found, 1, id=1, v=2) == {"id": 1, "v": 2, "w": 5}
    assert image_of(found, 2, id=1, v=2, w=7) == {"id": 1, "v": 2, "w": 7}


def test_a_column_that_was_added_since_the_last_record_is_known_too() -> None:
    now = with_column(column("w", id="w@1", initial={"value": None}))
    assert image_of(images(versions(PLAIN), now), 1, id=1, v=2) == {"id": 1, "v": 2, "w": None}


def test_a_column_with_an_unknown_initial_value_makes_older_images_undetermined() -> None:
    now = with_column(column("w", id="w@1", initial={"unknown": "DEFAULT (uuid())"}))
    found = images(versions(PLAIN), now).of(1)
    assert found is not None
    assert found.undetermined == "rows from before column w was added"


def test_a_renamed_column_keeps_its_values_and_a_dropped_one_is_gone() -> None:
    now = definition(column("id"), column("w", id="v"))
    before = definition(column("id"), column("v"), column("x"))
    found = images(versions(before, definition(column("id"), column("v", id="v"))), now)
    assert image_of(found, 1, id=1, v=2, x=3) == {"id": 1, "w": 2}


def test_a_column_of_another_type_leaves_a_doubt_about_older_images() -> None:
    now = definition(column("id"), column("v", "bigint"))
    found = images(versions(PLAIN), now).of(1)
    assert found is not None
    assert found.doubt == "rows from before column v was altered"
    assert found.image({"id": 1, "v": 2}) == {"id": 1, "v": 2}


def test_an_unknown_version_is_none() -> None:
    # Nor has the next one the number of the columns as they are now.
    assert (images().of(2), images().of(7)) == (None, None)
