"""`import-canal` and `import-debezium`: another program's configuration as settings, a mapping and a report.

Invariant: no server is asked, the other program's files are only read, and no password is copied or printed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from pathlib import Path

from app.migrate.canal.configuration import Surroundings
from app.migrate.canal.importing import import_canal
from app.migrate.debezium.importing import import_debezium
from app.migrate.draft import MAPPING_FILE, Imported, Outcome
from app.operator.arguments import add_format
from app.operator.terminal import print_answer
from connectors.errors import UsageError

NOT_KEPT = 3
"""The exit code if something that cannot be kept is not accepted."""
SETTINGS_FILE = "aqueduct.yaml"


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        required=True,
        type=Path,
        metavar="FOLDER",
        help=f"folder for {SETTINGS_FILE} and {MAPPING_FILE}; files that exist are not replaced",
    )
    parser.add_argument(
        "--accept",
        dest="accepted",
        action="append",
        default=[],
        metavar="KEY",
        help="a key of the report that cannot be kept, which you accept; may be repeated",
    )
    add_format(parser)


def _write_and_report(
    found: Imported, folder: Path, form: str, *, accepted: Collection[str] = ()
) -> int:
    """Write the files and print the report; return the exit code.

    Nothing is written until each key that cannot be kept is accepted.
    """
    lost = list(dict.fromkeys(one.key for one in found.of(Outcome.LOST)))
    if unknown := [key for key in accepted if key not in lost]:
        raise UsageError(f"--accept {unknown[0]}: the report has no such key that cannot be kept")
    if refused := [key for key in lost if key not in accepted]:
        value = {"written": [], "refused": refused, **found.to_json()}
        options = " ".join(f"--accept {key}" for key in refused)
        print_answer(
            form, value, [*found.lines(), f"nothing was written; to accept that: {options}"]
        )
        return NOT_KEPT
    texts = {SETTINGS_FILE: found.settings, MAPPING_FILE: found.mapping}
    written = [_written(folder / name, text) for name, text in texts.items() if text]
    value = {"written": [str(path) for path in written], **found.to_json()}
    print_answer(form, value, [*found.lines(), *(f"wrote {path}" for path in written)])
    return 0


def _written(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already", remedy="Name another folder") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return path


def configure_import_canal(parser: argparse.ArgumentParser) -> None:
    """Take Canal's folder, and what Canal reads in addition to its files."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="Canal's conf folder")
    parser.add_argument(
        "--prefix", default="aq", help="prefix of all topics (default: %(default)s)"
    )
    parser.add_argument(
        "-D",
        dest="properties",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a system property of Canal's Java process; may be repeated",
    )
    parser.add_argument(
        "--cursor",
        dest="cursors",
        action="append",
        default=[],
        type=_pair,
        metavar="INSTANCE=FILE",
        help="an instance's cursor as ZooKeeper or meta.dat has it, in a file; may be repeated",
    )
    _add_output(parser)


def run_import_canal(options: argparse.Namespace) -> int:
    """Import; return the exit code."""
    surroundings = Surroundings(
        system_properties=dict(options.properties),
        environment=dict(os.environ),
        cursor_files={name: Path(file) for name, file in options.cursors},
    )
    found = import_canal(options.folder, surroundings, prefix=options.prefix)
    return _write_and_report(found, options.output, options.format, accepted=options.accepted)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (sign and name and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def configure_import_debezium(parser: argparse.ArgumentParser) -> None:
    """Take the connector, and the offset at which it was stopped."""
    parser.add_argument(
        "connector",
        type=Path,
        metavar="FILE.json",
        help="configuration of a connector for MySQL or MariaDB, with or without its name",
    )
    parser.add_argument(
        "--offsets",
        type=Path,
        metavar="FILE",
        help="its offset: the answer of GET /connectors/NAME/offsets, or the value in Connect's topic",
    )
    parser.add_argument("--prefix", default="", help="prefix of all topics (default: topic.prefix)")
    parser.add_argument(
        "--worker",
        type=Path,
        metavar="FILE",
        help="the properties of Kafka Connect's worker, whose converters apply if the connector names none",
    )
    _add_output(parser)


def run_import_debezium(options: argparse.Namespace) -> int:
    """Import; return the exit code."""
    found = import_debezium(
        options.connector, offsets=options.offsets, prefix=options.prefix, worker=options.worker
    )
    return _write_and_report(found, options.output, options.format, accepted=options.accepted)
