"""What the imports of other programs' configurations have in common: where files go, and the report."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from app.migrate.draft import MAPPING_FILE
from app.migrate.findings import Imported, Outcome
from app.operator.arguments import add_format
from app.operator.output import print_answer
from connectors.errors import UsageError

NOT_KEPT = 3
"""The exit code if something that cannot be kept is not accepted."""
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
    parser.add_argument(
        "--accept",
        dest="accepted",
        action="append",
        default=[],
        metavar="KEY",
        help="a key of the report that cannot be kept, which you accept; may be repeated",
    )
    add_format(parser)


def write_and_report(
    found: Imported, folder: Path, form: str, *, accepted: Collection[str] = ()
) -> int:
    """Write the files and print the report; return the exit code. Nothing is written while something that
    cannot be kept is not accepted by its key."""
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
