"""Golden files of imports; run with RECORD_IMPORTS=1 to write them again."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml

from app.migrate.draft import Imported


def assert_golden(folder: Path, found: Imported) -> None:
    """Compare an import with the files in ``folder/expected``."""
    texts = {
        "aqueduct.yaml": found.settings,
        "mapping.yaml": found.mapping,
        "report.txt": "\n".join(found.lines()),
    }
    expected = folder / "expected"
    if os.environ.get("RECORD_IMPORTS"):
        expected.mkdir(exist_ok=True)
        for name, text in texts.items():
            (expected / name).write_text(text)
    assert {name: (expected / name).read_text() for name in texts} == texts


def create_password_files(settings: Path) -> None:
    """Write each password file that a settings file names, as its report asks an operator to do."""
    waiting = [yaml.safe_load(settings.read_text())]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
            for name in one:
                if name.endswith("password_file"):
                    path = settings.parent / one[name]
                    path.parent.mkdir(exist_ok=True)
                    path.write_text("p")
                if name == "key_file":
                    key = base64.b64encode(bytes(32)).decode()
                    (settings.parent / one[name]).write_text(f"debezium: {key}\n")
