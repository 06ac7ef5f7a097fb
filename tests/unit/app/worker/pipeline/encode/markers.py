"""The transaction markers that pieces have."""

from __future__ import annotations

from typing import Any

from app.worker.pipeline.piece import Piece
from tests.unit.app.worker.pipeline.runs import MARKERS, records_of


def marker_records(pieces: list[Piece]) -> list[Any]:
    return [record.value for record in records_of(pieces) if record.topic == MARKERS]
