"""Settings errors in terms of the settings file: paths by their names, each fault once.

Invariant: no value is shown, since a refused value may be a secret in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel

_LABEL = re.compile(
    r"\(.*\)|\w+-(before|after|wrap|plain)\[.*|literal\[.*|\[key\]|bool|str|int|float", re.DOTALL
)
"""Parts of a path that pydantic adds: forms of a union, validators, a key instead of its value."""


def faults(errors: Iterable[Mapping[str, Any]], model: type[BaseModel]) -> list[str]:
    """Return one line for each faulty path of the model; faults of a value's alternative forms are joined."""
    found: dict[str, list[str]] = {}
    for error in errors:
        messages = found.setdefault(_setting_path(error), [])
        message = re.sub(r"^Value error, ", "", error["msg"])
        if error["type"] == "extra_forbidden":
            message = _unknown(error["loc"], model)
        if message not in messages:
            messages.append(message)
    return [f"{path}: {' or '.join(messages)}" for path, messages in found.items()]


def _unknown(path: tuple[str | int, ...], model: type[BaseModel]) -> str:
    """The message for an unknown setting, with the nearest name, the paths elsewhere, or all known names."""
    models = {model}
    for part in path[:-1]:
        inner = {
            found
            for one in models
            if part in one.model_fields
            for found in _models(one.model_fields[str(part)].annotation)
        }
        # An index of a list, a key of a mapping and the form of a union are no fields: the models stay.
        models = inner or models
    known = sorted({name for one in models for name in one.model_fields})
    near = get_close_matches(str(path[-1]).casefold(), known, n=1)
    if not near and (elsewhere := sorted(_paths(str(path[-1]), model))):
        return f"no such setting here; there is {', '.join(elsewhere)}"
    return (
        f"no such setting; the nearest is {near[0]}"
        if near
        else f"no such setting; there are {', '.join(known)}"
    )


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models within a type, such as those of a mapping's values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _models(one)


def _paths(name: str, model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The paths of all settings with a name, as docs/settings.md writes them."""
    for field, info in model.model_fields.items():
        inner = set(_models(info.annotation))
        is_named = get_origin(info.annotation) is dict
        if field == name:
            yield above + field
        for one in inner:
            yield from _paths(
                name, one, f"{above}{field}.<name>." if is_named else f"{above}{field}."
            )


def _setting_path(error: Mapping[str, Any]) -> str:
    parts = [str(part) for part in error["loc"]]
    return ".".join(part for part in parts if not _LABEL.fullmatch(part)) or "settings"
