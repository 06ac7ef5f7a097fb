"""Documents, and all texts and comments in code, are in plain English: the words that they do not use."""

import pytest

from tests.architecture.literals import texts
from tests.architecture.tree import File, files, module_from, modules
from tests.architecture.words import RULED_OUT, prose, ruled_out

DOCUMENTS = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "deploy/",
    "docs/",
)
SETTINGS = ("aqueduct.example.yaml", "sink.example.yaml", "compose.yaml")
RULES_THEMSELVES = "tests/architecture/"


def for_operators() -> list[File]:
    return [
        file
        for file in files()
        if file.path.startswith((*DOCUMENTS, *SETTINGS)) and not file.path.endswith(".svg")
    ]


def test_documents_and_settings_use_no_ruled_out_word() -> None:
    assert list(ruled_out(map(prose, for_operators()))) == []


def test_texts_comments_and_names_in_code_use_no_ruled_out_word() -> None:
    code = [one for one in modules() if not one.file.path.startswith(RULES_THEMSELVES)]
    assert list(ruled_out(texts(code))) == []


@pytest.mark.parametrize(
    "text",
    [
        "the worker is told",
        "Whoever leads",
        "it has gone\non with another",
        "the table is set aside",
        "the cursor is behind it",
        "Rows are kept for ever",
    ],
)
def test_a_ruled_out_word_is_found_in_prose(text: str) -> None:
    (found,) = ruled_out([prose(File("docs/x.md", f"# X\n\n{text}.\n"))])
    assert found.startswith("docs/x.md:3 has ")


@pytest.mark.parametrize(
    "text",
    [
        "`set aside`",
        "```\nit stays set aside\n```",
        "[x](told.md)",
        "keep it behind a\nproxy",
        "`aqueduct_tables_set_aside`, untold",
    ],
)
def test_a_quotation_and_a_legitimate_use_are_let_be(text: str) -> None:
    assert list(ruled_out([prose(File("docs/x.md", text))])) == []


def test_every_ruled_out_word_names_what_to_write_instead() -> None:
    assert all(RULED_OUT.values())


def test_texts_in_code_are_found_whole() -> None:
    planted = module_from(
        "app/x.py",
        '''
class Gone(AqueductError):
    """A thing is gone."""

    remedy = "Make it " "again."
    kind = "word"

def its_name(name):
    # A comment
    # of two lines.
    log.warning("%s was found", name)
    raise Gone(f"no {name} at {name or 'an inner text'}")
''',
    )
    assert {one.text for one in texts([planted])} == {
        "A thing is gone.",
        "Make it again.",
        "A comment\nof two lines.",
        "%s was found",
        "no {} at {}",
        "an inner text",
        "its name",
    }
