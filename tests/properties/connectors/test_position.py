"""Coordinates are the same after their text."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.mysql.position import Coordinates


@given(file=st.text("abc.:-0123456789", min_size=1), pos=st.integers(0))
def test_coordinates_are_the_same_after_their_text(file: str, pos: int) -> None:
    assert Coordinates.parse(str(Coordinates(file, pos))) == Coordinates(file, pos)
