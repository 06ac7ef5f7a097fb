import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from app.settings.model import load
from spark_sink.settings import model as sink_settings
from spark_sink.settings.model import Settings
from tests.architecture import folders
from tests.architecture.documents import (
    broken_anchors,
    broken_links,
    changes,
    missing_paths,
    missing_tests,
    named_paths,
    pages_in_code,
    unknown_settings,
    unknown_targets,
    unnamed,
)
from tests.architecture.tree import PROJECT, File, files, module_from, modules

NAMES_OF_FAULTS = {"docs/reliability.md"}
"""Its faults are called kafka.kill, source.read-only and the like."""
NO_SETTINGS = {"mapping.yaml", "mysql.heartbeat"}
"""A file and a table whose names begin as a setting's."""
_FIELD = re.compile(r"`(?:source\.)?([a-z_]+)`")
PAGES_OF_OTHERS = {"docs/dataformat.md"}
"""A page of Maxwell's."""
NAMING_PAGES = (
    "app/",
    "tables/",
    "connectors/",
    "spark_sink/",
    "aqueduct_client/",
    "wire/",
    "deploy/",
    "sink.example.yaml",
)
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


def test_every_page_that_an_error_or_an_alert_names_is_there_with_its_heading() -> None:
    named = list(pages_in_code(file for file in files() if file.path.startswith(NAMING_PAGES)))
    assert {"deploy.prometheus.alerts.yml", "spark_sink.jobs.reload.py"} <= {f.path for f in named}
    found = broken_links(named, lambda page: page in PAGES_OF_OTHERS or exists(page))
    assert list(found) == []
    assert list(broken_anchors([*documents(), *named])) == []


def test_every_setting_that_is_named_is_there() -> None:
    pages = [page for page in documents() if page.path not in NAMES_OF_FAULTS]
    known = settings_named() | settings_of_the_sink()
    named = unknown_settings(pages, groups(known), known | NO_SETTINGS, record_fields())
    assert list(named) == []


def test_every_path_that_is_named_is_there() -> None:
    tops = {path.name for path in PROJECT.iterdir()} - {"tests"}
    assert list(missing_paths(documents(), exists, tops)) == []


def test_every_file_of_tests_that_is_named_is_there() -> None:
    assert list(missing_tests(documents(), (file.path for file in files()))) == []


def test_a_file_of_tests_is_named_by_its_path_or_the_end_of_it() -> None:
    text = "`tests/unit/test_a.py`, `unit/test_a.py::test_one`, `test_a.py`, `ddl/test_a.py`, `nit/test_a.py`"
    assert list(missing_tests([File("docs/x.md", text)], ["tests/unit/test_a.py"])) == [
        "docs/x.md names ddl/test_a.py",
        "docs/x.md names nit/test_a.py",
    ]


def test_every_target_and_suite_of_make_is_in_the_makefile() -> None:
    assert list(unknown_targets(documents(), (PROJECT / "Makefile").read_text())) == []


def test_the_list_of_folders_is_current() -> None:
    assert folders.PAGE.read_text() == folders.page(modules()), "run: make docs"
    product = [file for file in files() if file.path.startswith(PACKAGES)]
    assert list(unnamed(product, folders.PAGE.read_text())) == []


def test_the_architecture_is_read_at_one_sitting() -> None:
    assert (PROJECT / "ARCHITECTURE.md").stat().st_size <= 16 * 1024


@pytest.mark.parametrize(("page", "least"), [("ARCHITECTURE.md", 10), ("docs/changes.md", 60)])
def test_every_listed_change_begins_at_a_path_that_is_there(page: str, least: int) -> None:
    rows = changes((PROJECT / page).read_text())
    assert len(rows) >= least
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


def test_a_page_that_is_not_there_is_found_in_code() -> None:
    planted = [File("app/x.py", '"see docs/gone.md, docs/y.md#gone and docs/y.md#here"')]
    named = list(pages_in_code(planted))
    assert list(broken_links(named, {"docs/y.md"}.__contains__)) == [
        "app.x.py links to docs/gone.md"
    ]
    pages = [File("docs/y.md", "# Here"), *named]
    assert list(broken_anchors(pages)) == ["app.x.py links to docs/y.md#gone"]


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
        "`app/gone.py`, `app/worker/unit/retry_policy.py`, `devstack/*.lock`, `other/gone.py`",
    )
    assert list(missing_paths([planted], exists, {"app", "devstack"})) == ["x.md names app/gone.py"]


def test_an_unknown_target_or_suite_of_make_is_found_in_code_only() -> None:
    planted = File(
        "x.md",
        "```sh\nmake fly\nmake test SUITE=gone\n```\n`make test SUITE=a-b ONLY=c`; this will make sense",
    )
    makefile = "test: ## run\n\ntest_a-b = run\n"
    assert list(unknown_targets([planted], makefile)) == [
        "x.md says make fly",
        "x.md says make test SUITE=gone",
    ]


def test_the_list_of_folders_has_the_first_line_of_each() -> None:
    planted = [
        module_from("spark_sink/__init__.py", '"""The ``sink``,\nwhole.\n\nInvariant: none."""'),
        module_from("app/x/__init__.py", '"""X."""'),
        module_from("app/x/y.py", '"""Y."""'),
        module_from("tests/__init__.py", '"""Tests."""'),
    ]
    rows = [line for line in folders.page(planted).splitlines() if line.startswith("| `")]
    assert rows == ["| `app/x/` | X |", "| `spark_sink/` | The `sink`, whole |"]


def test_a_folder_without_a_line_is_found() -> None:
    planted = [File("app/new/one.py", ""), File("app/new/text.md", ""), File("app/__init__.py", "")]
    assert list(unnamed(planted, "| `app/` | x |\n| `new/` | y |")) == ["app/new"]


def yaml_blocks(path: str) -> list[str]:
    text = (PROJECT / path).read_text()
    return [part.partition("```")[0] for part in text.split("```yaml\n")[1:]]
