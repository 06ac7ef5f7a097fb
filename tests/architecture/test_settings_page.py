"""The pages of settings have every setting of the models, the worker's with its default and its variable."""

import re
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.settings.model import DestinationSettings, MergeSettings, Settings
from spark_sink.settings import model as sink_settings
from tests.architecture.tree import PROJECT

COMPUTED = {"worker.id": "the host's name"}
"""Defaults that differ from machine to machine."""
NAMED: dict[str, type[BaseModel]] = {"destinations": DestinationSettings, "merge": MergeSettings}
"""Settings of which there are several, each with a name."""

_ROW = re.compile(r"^\| `([\w.<>]+)` \| .+? \| ([^|]+) \| `(AQUEDUCT_\w+)` \| .+ \|$", re.MULTILINE)


def test_every_setting_is_on_the_page_with_its_default_and_no_other_is() -> None:
    values = {name: default for name, default, _ in rows(page())}
    assert values == in_model(Settings)


def test_every_variable_is_the_name_in_capitals() -> None:
    for name, _, variable in rows(page()):
        spelled = name.replace("<name>", "NAME").replace(".", "__").upper()
        assert variable == f"AQUEDUCT_{spelled}"


def test_a_setting_that_is_missing_on_the_page_is_found() -> None:
    shortened = page().replace("| `publish.interval_ms` |", "| publish.interval_ms |")
    missing = in_model(Settings).keys() - {name for name, _, _ in rows(shortened)}
    assert missing == {"publish.interval_ms"}


def test_every_setting_of_the_sink_is_on_its_page_and_no_other_is() -> None:
    text = (PROJECT / "docs/sink/settings.md").read_text()
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"\w+", cell)}
    of_tables = set(sink_settings.TableRule.model_fields) - {"match"}
    assert named == set(sink_settings.Settings.model_fields) | of_tables


def page() -> str:
    return (PROJECT / "docs/settings.md").read_text()


def rows(text: str) -> list[tuple[str, str, str]]:
    """Name, default and variable of each row."""
    return _ROW.findall(text)


def in_model(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Each setting with its default as the page writes it."""
    found: dict[str, str] = {}
    for field, info in model.model_fields.items():
        name = prefix + field
        if inner := _part(name, info.annotation):
            found |= in_model(inner, f"{name}.<name>." if name in NAMED else f"{name}.")
        else:
            found[name] = COMPUTED.get(name) or _default(info)
    return found


def _part(name: str, annotation: Any) -> type[BaseModel] | None:
    if name in NAMED:
        return NAMED[name]
    for one in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def _default(info: FieldInfo) -> str:
    value = info.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    if value == ():
        return "empty"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"
