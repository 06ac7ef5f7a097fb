"""Moments in the source's history as readers write them."""

from __future__ import annotations

import datetime

import pytest

from spark_sink.errors import CutAmbiguous
from spark_sink.views.cuts.moment import Change, Time, Transaction, moment

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"


def test_each_way_to_name_a_place() -> None:
    assert moment(GTID) == Transaction(GTID)
    assert moment("1:binlog.000002:1543") == Transaction("1:binlog.000002:1543")
    assert moment(("shop", 7)) == moment("shop@7") == Change("shop", 7)
    assert moment("1970-01-01T00:00:01.5Z") == moment("1970-01-01 01:00:01.500+01:00") == Time(1500)
    assert moment(datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)) == Time(86_400_000)


@pytest.mark.parametrize("text", ["2026-11-22T15:02:11", "2026-11-22T99:00:00Z"])
def test_a_time_without_a_zone_and_an_impossible_one_are_refused(text: str) -> None:
    with pytest.raises(CutAmbiguous, match=text):
        moment(text)
