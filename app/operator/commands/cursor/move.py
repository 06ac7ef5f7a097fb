"""The common part of `cursor set` and `cursor import`: show, confirm, make and report a planned move."""

from __future__ import annotations

import argparse

from app.operator.event_loop import run_operation
from app.operator.operations.cursor.move import Move, make_move
from app.operator.output import print_answer
from app.operator.terminal import confirm, reason_of


def confirm_and_move(options: argparse.Namespace, move: Move) -> int:
    """Make the move once its cost is confirmed; 0 once it is in the journal."""
    if not move.effect.is_free:
        confirm(options, f"{options.destination} moves to {move.offset}: {move.effect.text}")
    intervention = run_operation(make_move(move, reason_of(options)))
    line = f"{options.destination}: at {move.offset} in epoch {intervention.epoch}; {intervention.effect}"
    print_answer("text", None, [line])
    return 0
