"""`python -m app subscriber reset`: forget a group's position, so that its start position applies again."""

from __future__ import annotations

import argparse

from app.operator.commands.subscriber.arguments import (
    add_confirmation,
    add_group,
    make_and_report,
    topic_of,
)
from app.operator.event_loop import run_operation
from app.operator.operations.subscriber.move import plan_reset
from app.settings.model import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a group, and a table."""
    parser.epilog = "It is refused while the group has clients."
    add_group(parser)
    add_confirmation(parser)


def run(options: argparse.Namespace) -> int:
    """Reset it; 0 once Kafka has deleted the offsets."""
    settings = load()
    plan = plan_reset(settings, options.group, topic=topic_of(options, settings))
    return make_and_report(options, run_operation(plan))
