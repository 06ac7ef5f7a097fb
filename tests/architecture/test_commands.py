"""Each command line of the documents has a command and options that exist."""

from __future__ import annotations

import argparse

from app.operator.commands import GROUPS, UNGROUPED, command, ungrouped_command
from spark_sink.__main__ import _parser
from tests.architecture.commands import Options, unknown_commands
from tests.architecture.literals import texts
from tests.architecture.tree import File, files, modules

PRODUCT = ("app/", "aqueduct_client/", "connectors/", "spark_sink/", "tables/", "wire/")
PAST = {"CHANGELOG.md"}
"""It has commands of earlier versions."""


def known() -> Options:
    worker = {name: options_of(ungrouped_command(name)) for name in UNGROUPED}
    for group, found in GROUPS.items():
        worker |= {f"{group} {name}": options_of(command(group, name)) for name in found.commands}
    (commands,) = (one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction))
    sink = {name: names_of(parser) for name, parser in commands.choices.items()}
    return {"app": worker, "spark_sink": sink}


def options_of(module: object) -> frozenset[str]:
    parser = argparse.ArgumentParser()
    module.configure(parser)  # type: ignore[attr-defined]  # a module, by its Protocol
    return names_of(parser)


def names_of(parser: argparse.ArgumentParser) -> frozenset[str]:
    return frozenset(name for action in parser._actions for name in action.option_strings)


def test_every_command_and_option_that_is_named_exists() -> None:
    pages = [one for one in files() if one.path.endswith(".md") and one.path not in PAST]
    assert list(unknown_commands(pages, known())) == []


def test_every_command_in_a_text_of_the_product_exists() -> None:
    found = texts(one for one in modules() if one.file.path.startswith(PRODUCT))
    parts = [File(one.path, one.text) for one in found]
    assert list(unknown_commands(parts, known())) == []


def test_a_command_or_option_that_does_not_exist_is_found() -> None:
    text = (
        "`python -m app cursor move shop`, `cursor set DEST --newest`, `schema …`, `cursor show|export`\n"
        "```sh\n$ python -m spark_sink --config x.yaml reload shop.t --fast\n"
        "python -m app validate shop --repair > --report\n```\n"
    )
    assert [one.rpartition(": ")[2] for one in unknown_commands([File("x.md", text)], known())] == [
        "reload has no --fast",
        "there is no cursor move",
        "cursor set has no --newest",
    ]
