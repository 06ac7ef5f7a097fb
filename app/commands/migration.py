"""What the imports of other programs' configurations have in common: where files go, and the report."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.commands.arguments import add_format
from app.commands.output import print_answer
from app.operations.migration.draft import MAPPING_FILE
from app.operations.migration.findings import Imported
from connectors.errors import UsageError

SETTINGS_FILE = "aqueduct.yaml"


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the folder for the files, and the format of the report."""
    parser.add_argument(
        "--output",
        required=True,
        type=Path,
        metavar="FOLDER",
        help=f"folder for {SETTINGS_FILE} and {MAPPING_FILE}; files that exist are not replaced",
    )
    add_format(parser)


def write_and_report(found: Imported, folder: Path, form: str) -> int:
    """Write the files and print the report; return the exit code."""
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
