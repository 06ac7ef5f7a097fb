"""The pinned packages that are imported; a pin without an import is a fault.

Invariant: nothing is installed or imported here; names of modules come from the installed packages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions

from tests.architecture.tree import Module

_NAME = re.compile(r"^[\w.-]+")


def pinned(pyproject: str) -> dict[str, list[str]]:
    """Names of the packages that ``pyproject.toml`` pins: ``""`` for what is always needed, else by extra."""
    project = tomllib.loads(pyproject)["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [normal(line) for line in lines] for extra, lines in groups.items()}


def normal(requirement: str) -> str:
    """A package's normalized name (PEP 503), without its extras and version."""
    match = _NAME.match(requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def not_imported(packages: Iterable[str], modules: Iterable[Module]) -> Iterator[str]:
    """Packages of which these modules import nothing."""
    imported = {source.partition(".")[0] for module in modules for source, _ in module.imports()}
    used = {
        normal(distribution)
        for name, distributions in packages_distributions().items()
        if name in imported
        for distribution in distributions
    }
    yield from (package for package in packages if package not in used)
