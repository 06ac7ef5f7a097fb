import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from app.settings.model import load
from spark_sink.settings import model as sink_settings
from spark_sink.settings.model import Settings
from tests.architecture.documents import (
    broken_anchors,
    broken_links,
    changes,
    missing_paths,
    named_paths,
    unknown_settings,
    unknown_targets,
    unnamed,
)
from tests.architecture.tree import PROJECT, File, files

NAMES_OF_FAULTS = {"docs/reliability.md"}
"""Its faults are called kafka.kill, source.read-only and the like."""
NO_SETTINGS = {"mapping.yaml", "mysql.heartbeat"}
"""A file and a table whose names begin as a setting's."""
_FIELD = re.compile(r"`(?:source\.)?([a-z_]+)`")
PACKAGES = ("app/", "tables/", "connectors/", "spark_sink/", "aqueduct_client/", "wire/")


def documents() -> list[File]:
    return [file for file in files() if file.path.endswith(".md")]


def settings_named() -> set[str]:
    """Every setting of the page, by its whole name and by each end of it; groups too."""
    page = (PROJECT / "docs/settings.md").read_text()
    names = [
        name.replace("destinations.<name>.", "").split(".")
        for name in re.findall(r"^\| `([\w.<>]+)` \|", page, re.MULTILINE)
    ]
    return {
        ".".join(parts[first:last])
        for parts in names
        for first in range(len(parts))
        for last in range(first + 1, len(parts) + 1)
    }


def settings_of_the_sink(model: type[BaseModel] = Settings, above: str = "") -> set[str]:
    found = set[str]()
    for name, field in model.model_fields.items():
        found.add(above + name)
        kinds = [field.annotation]
        for one in kinds:
            kinds += get_args(one)
            if isinstance(one, type) and issubclass(one, BaseModel):
                found |= settings_of_the_sink(one, f"{above}{name}.")
    return found


def groups(names: set[str]) -> set[str]:
    """The names before the first dot."""
    return {first for first, dot, _ in (one.partition(".") for one in names) if dot}


def record_fields() -> set[str]:
    """Fields of `source` in a record, by the page of the wire contract."""
    page = (PROJECT / "docs/wire.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `source.")]
    return {f"source.{name}" for cell in cells for name in _FIELD.findall(cell)}


def exists(path: str) -> bool:
    """Whether a path is there; what setup and servers put into `.cache` may be, on another day."""
    if path.startswith(".cache/"):
        return True
    if "*" in path:
        return any(PROJECT.glob(path))
    return (PROJECT / path).exists()


def test_every_link_leads_to_a_file() -> None:
    assert list(broken_links(documents(), exists)) == []


def test_every_anchor_leads_to_a_heading() -> None:
    assert list(broken_anchors(documents())) == []


def test_every_runbook_of_an_alert_leads_to_a_heading() -> None:
    rules = (PROJECT / "deploy/prometheus/alerts.yml").read_text()
    links = "\n".join(f"[x]({one})" for one in re.findall(r'runbook: "([^"]+)"', rules))
    assert links
    assert list(broken_anchors([*documents(), File("alerts", links)])) == []


def test_every_setting_that_is_named_is_there() -> None:
    pages = [page for page in documents() if page.path not in NAMES_OF_FAULTS]
    known = settings_named() | settings_of_the_sink()
    named = unknown_settings(pages, groups(known), known | NO_SETTINGS, record_fields())
    assert list(named) == []


def test_every_path_that_is_named_is_there() -> None:
    tops = {path.name for path in PROJECT.iterdir()} - {"tests"}
    assert list(missing_paths(documents(), exists, tops)) == []


def test_every_target_of_make_is_in_the_makefile() -> None:
    assert list(unknown_targets(documents(), (PROJECT / "Makefile").read_text())) == []


def test_the_architecture_names_every_folder_of_the_product() -> None:
    product = [file for file in files() if file.path.startswith(PACKAGES)]
    assert list(unnamed(product, (PROJECT / "ARCHITECTURE.md").read_text())) == []


def test_every_change_of_the_architecture_begins_at_a_path_that_is_there() -> None:
    rows = changes((PROJECT / "ARCHITECTURE.md").read_text())
    assert len(rows) >= 30
    for change, begin in rows:
        paths = named_paths(begin)
        assert paths, f"no path: {change}"
        assert all((PROJECT / path).exists() for path in paths), change


def test_the_worker_takes_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(PROJECT / "aqueduct.example.yaml"))
    assert load().destinations["shop"].start == "earliest"


def test_the_worker_takes_the_settings_of_the_readme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (text,) = [block for block in yaml_blocks("README.md") if "destinations:" in block]
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/mysql").write_text("hidden\n")
    (tmp_path / "aqueduct.yaml").write_text(text)
    # Wherever it is started: the secret's path begins at the settings file.
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    assert load().destinations["shop"].listed[0].secret() == "hidden"


def test_the_sink_takes_the_example_and_the_settings_of_the_readme(tmp_path: Path) -> None:
    example = sink_settings.read(PROJECT / "sink.example.yaml")
    (text,) = [block for block in yaml_blocks("README.md") if "warehouse:" in block]
    (tmp_path / "sink.yaml").write_text(text)
    assert sink_settings.read(tmp_path / "sink.yaml").prefix == example.prefix == "aq"


def test_an_anchor_without_a_heading_is_found() -> None:
    planted = [
        File("docs/x.md", "# The `x` of [y](z.md)\n[a](#the-x-of-y) [b](#gone) [c](../y.md#b-1)"),
        File("y.md", "## B 1!\n[c](docs/x.md#nothing) [d](docs/other.md#x)"),
    ]
    assert list(broken_anchors(planted)) == [
        "docs/x.md links to #gone",
        "y.md links to docs/x.md#nothing",
    ]


def test_a_setting_that_is_not_there_is_found() -> None:
    planted = File(
        "x.md",
        "`topics.gone`, `topics.partitions`, `source.seq`, `source.tls`, `maintenance.gone`, `other.x`",
    )
    known = settings_named() | settings_of_the_sink()
    assert list(unknown_settings([planted], groups(known), known, record_fields())) == [
        "x.md names maintenance.gone",
        "x.md names topics.gone",
    ]


def test_a_broken_link_is_found() -> None:
    planted = File("docs/x.md", "[a](gone.md) [b](../README.md#top) [c](https://example.org)")
    assert list(broken_links([planted], exists)) == ["docs/x.md links to gone.md"]


def test_a_path_that_is_not_there_is_found() -> None:
    planted = File(
        "x.md",
        "`app/gone.py`, `app/worker/destination/retry_policy.py`, `devstack/*.lock`, `other/gone.py`",
    )
    assert list(missing_paths([planted], exists, {"app", "devstack"})) == ["x.md names app/gone.py"]


def test_an_unknown_target_of_make_is_found_in_code_only() -> None:
    planted = File("x.md", "```sh\nmake fly\n```\n`make test`; this will make sense")
    assert list(unknown_targets([planted], "test: ## run\n")) == ["x.md says make fly"]


def test_a_folder_without_a_line_is_found() -> None:
    planted = [File("app/new/one.py", ""), File("app/new/text.md", ""), File("app/__init__.py", "")]
    assert list(unnamed(planted, "| `app/` | x |\n| `new/` | y |")) == ["app/new"]


def yaml_blocks(path: str) -> list[str]:
    text = (PROJECT / path).read_text()
    return [part.partition("```")[0] for part in text.split("```yaml\n")[1:]]
