"""The common part of `cursor set` and `cursor import`: show, confirm, make and report a planned move."""

from __future__ import annotations

import argparse

from app.commands.cursor.confirmation import confirm, reason_of
from app.commands.event_loop import completed
from app.commands.output import answer
from app.operations.cursor.move import Move, made


def carry_out(options: argparse.Namespace, move: Move) -> int:
    """Make the move once its cost is confirmed; 0 once it is in the journal."""
    if not move.effect.is_free:
        confirm(options, f"{options.destination} moves to {move.offset}: {move.effect.text}")
    told = completed(made(move, reason_of(options)))
    line = f"{options.destination}: at {move.offset} in epoch {told.epoch}; {told.effect}"
    answer("text", None, [line])
    return 0
