"""Text for operators is in plain English: the words that it does not use, and the texts that are checked."""

import pytest

from tests.architecture.literals import operator_texts
from tests.architecture.tree import File, files, module_from, modules
from tests.architecture.words import RULED_OUT, prose, ruled_out

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/", "deploy/")
SETTINGS = ("aqueduct.example.yaml", "sink.example.yaml", "compose.yaml")
NOT_YET = {"docs/ROADMAP.md"}
"""Documents that are not in plain English yet; leave a name out once its document is."""

PACKAGES = ("app/", "connectors/", "tables/", "spark_sink/", "aqueduct_client/")
PLAIN = (
    "app/__main__.py",
    "app/auditing/",
    "app/commands/",
    "app/operations/",
    "app/pipeline/decoders/",
    "connectors/mysql/rows/compiled/",
    "connectors/mysql/ddl/grammar/",
    "connectors/mysql/dml/",
    "connectors/mysql/rows/values/",
    "connectors/zookeeper/",
)
"""Files, or folders, of the product whose texts are in plain English; add to it as they become so."""


def for_operators() -> list[File]:
    return [
        file
        for file in files()
        if file.path.startswith((*DOCUMENTS, *SETTINGS))
        and not file.path.endswith(".svg")
        and file.path not in NOT_YET
    ]


def test_documents_and_settings_use_no_ruled_out_word() -> None:
    assert list(ruled_out(map(prose, for_operators()))) == []


def test_a_document_that_is_plain_is_no_longer_excused() -> None:
    excused = [file for file in files() if file.path in NOT_YET]
    assert {file.path for file in excused if list(ruled_out([prose(file)]))} == NOT_YET


def test_texts_of_the_product_use_no_ruled_out_word() -> None:
    product = [module for module in modules() if module.file.path.startswith(PACKAGES)]
    texts = [one for one in operator_texts(product) if one.path.startswith(PLAIN)]
    assert list(ruled_out(texts)) == []


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


def test_texts_for_operators_are_found_where_they_are_used() -> None:
    planted = module_from(
        "app/x.py",
        '''
class Gone(AqueductError):
    """A thing is gone."""

    remedy = "Make it " "again."
    kind = "not a text"

def run(name):
    """Not for operators."""
    log.warning("%s was found", name, extra={"a b": 1})
    parser.add_argument("--why now", help="for the record")
    parser.epilog = "See the page."
    Counter("a_total", "Things that were seen.", ["a b c"])
    if name:
        raise Gone(f"no {name} at {name}", name=str("inner text"))
    return Gone("late news") if name != "one two" else None
''',
    )
    assert {one.text for one in operator_texts([planted])} == {
        "A thing is gone.",
        "Make it again.",
        "%s was found",
        "for the record",
        "See the page.",
        "Things that were seen.",
        "no {} at {}",
        "late news",
    }
