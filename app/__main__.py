"""Operator commands: `python -m app GROUP COMMAND …`, or a command without a group.

Invariant: exit 0 means done; 1 a named error reported in one message, or an answer that asks for
action; 2 bad usage; 78 unusable settings. An error that an operator can correct never prints a
traceback.
"""

from __future__ import annotations

import argparse
import os
import sys

from app.operator.commands import (
    GROUPS,
    UNGROUPED,
    Command,
    CommandParser,
    command,
    ungrouped_command,
)
from app.version import __version__
from app.worker.process.library_logs import escape_values, quiet_libraries
from connectors.errors import AqueductError, SettingsError, UsageError

INTERRUPTED = 130
"""The exit code after Ctrl-C, by the convention of shells."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    escape_values()
    quiet_libraries()
    words = sys.argv[1:] if arguments is None else arguments
    parser, commands = _parser()
    chosen = _chosen(words)
    if chosen is not None:
        chosen.configure(commands[words[0], "" if words[0] in UNGROUPED else words[1]])
    options = parser.parse_args(words)
    if chosen is None:  # argparse has refused the words that name no command
        raise AssertionError(words)
    return _outcome(chosen, options)


def _chosen(words: list[str]) -> Command | None:
    if words and words[0] in UNGROUPED:
        return ungrouped_command(words[0])
    if len(words) < 2 or words[0] not in GROUPS or words[1] not in GROUPS[words[0]].commands:
        return None
    return command(words[0], words[1])


def _outcome(chosen: Command, options: argparse.Namespace) -> int:
    try:
        code = chosen.run(options)
        sys.stdout.flush()
    except SettingsError as error:
        return _failed(error, os.EX_CONFIG)
    except UsageError as error:
        return _failed(error, 2)
    except AqueductError as error:
        if "DEST" in error.advice and (name := getattr(options, "destination", None)):
            # So that the printed command can be run as it is.
            error.context.setdefault("destination", name)
        return _failed(error, 1)
    except BrokenPipeError:
        # The reader closed the pipe; without this, the interpreter would report an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _failed(error: AqueductError, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"aqueduct: {error.name}: {error}\n")
    return code


def _parser() -> tuple[CommandParser, dict[tuple[str, str], CommandParser]]:
    """Return the parser of all groups, and the parser of each command, which its module completes."""
    parser = CommandParser(
        prog="python -m app",
        description="Commands for operators. The worker itself is started by Faust.",
    )
    parser.add_argument("--version", action="version", version=f"Aqueduct {__version__}")
    groups = parser.add_subparsers(dest="group", metavar="GROUP", required=True)
    found = {
        (name, ""): groups.add_parser(name, help=line, description=line)
        for name, line in UNGROUPED.items()
    }
    for name, group in GROUPS.items():
        inner = groups.add_parser(name, help=group.help, description=group.help)
        commands = inner.add_subparsers(dest="command", metavar="COMMAND", required=True)
        for each, line in group.commands.items():
            found[name, each] = commands.add_parser(each, help=line, description=line)
    return parser, found


if __name__ == "__main__":
    sys.exit(main())
