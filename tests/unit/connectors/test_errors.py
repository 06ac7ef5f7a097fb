"""Errors: each names what happened, where, and what to do, on one line."""

import pickle
from collections.abc import Iterator

import pytest

from connectors import errors
from connectors.errors import AqueductError, PreflightError, Retry, SourceLost
from connectors.mysql.position import Coordinates


def classes(base: type[AqueductError] = AqueductError) -> Iterator[type[AqueductError]]:
    for one in base.__subclasses__():
        yield one
        yield from classes(one)


OURS = [one for one in classes() if vars(errors).get(one.__name__) is one]


def test_each_class_of_every_family_is_asked_for_in_one_place() -> None:
    families = {one for one in classes() if one.__module__.startswith("connectors.")}
    assert families == set(OURS)


@pytest.mark.parametrize("error", OURS)
def test_an_error_of_each_class_is_one_line_that_begins_with_what_happened(
    error: type[AqueductError],
) -> None:
    docstring = error.__doc__
    assert docstring
    for text in (str(error()), str(error("detail", table="d.t"))):
        assert "\n" not in text
        assert text.startswith(docstring.strip().splitlines()[0].rstrip("."))
        assert ".." not in text


@pytest.mark.parametrize("error", [one for one in OURS if one is not errors.SettingsError])
def test_an_error_of_each_class_says_what_to_do(error: type[AqueductError]) -> None:
    # What is wrong with settings names the setting; there is nothing to add in general.
    assert error.remedy
    assert str(error()).endswith(error.remedy)


@pytest.mark.parametrize("error", [AqueductError, *OURS])
def test_an_error_of_each_class_is_the_same_in_another_process(error: type[AqueductError]) -> None:
    result = error("detail", remedy="Do this.", coordinates=Coordinates("b.000001", 4), gtid=None)
    for sent in (result, error()):
        found = pickle.loads(pickle.dumps(sent, protocol=5))
        assert type(found) is error
        assert str(found) == str(sent)
        assert (found.detail, found.context, found.advice) == (
            sent.detail,
            sent.context,
            sent.advice,
        )


def test_what_where_and_remedy_are_in_this_order() -> None:
    error = SourceLost("gone.", coordinates=Coordinates("b.000001", 4), gtid=None)
    assert str(error) == (
        "The connection to MySQL was lost or could not be made: gone. [coordinates=b.000001:4]. "
        f"{SourceLost.remedy}"
    )


def test_a_remedy_given_on_the_spot_replaces_the_general_one() -> None:
    assert str(PreflightError("x", remedy="Do this.")).endswith(": x. Do this.")


def test_what_to_do_names_the_destination_where_it_is_known() -> None:
    assert "`python -m app cursor set shop --latest --with-snapshot" in str(
        errors.PositionPurged("x", destination="shop")
    )


def test_an_error_without_any_remedy_still_ends_as_a_sentence() -> None:
    assert str(errors.SettingsError("x")) == "The settings are not usable: x."


def test_an_error_waits_for_an_operator_unless_it_may_pass_by_itself() -> None:
    assert AqueductError.retry is Retry.MANUAL
    timed = {one.__name__ for one in OURS if one.retry is Retry.TIMED}
    assert timed == {
        "BatchTooLarge",
        "SchemaRegistryLost",
        "TableUnreadable",
        "SchemaRegistryDenied",
        "KafkaSlow",
        "TooFewBrokers",
        "MergeUnfinished",
        "SourceLost",
        "SourceRefused",
        "StoreLost",
        "RunRestarts",
        "WitnessesDiffer",
        "CorruptEvent",
        "MalformedEvent",
        "KafkaLost",
        "KafkaDenied",
        "DecoderLost",
        "DecoderStalled",
        "ReaderStalled",
        "TransactionOpen",
        "AnotherWorkerLeads",
        "RowUnreadable",
        "RuleImpossible",
        "SchemaRefused",
        "TopicUnusable",
        "NoSourceFits",
        "SourceSilent",
        "StandbyLags",
        "CoordinationLost",
        "CoordinationRefused",
        "LeadershipLost",
        "NodeUnfit",
        "WorkerIdTaken",
        "ClaimStoreLost",
        "ClaimStoreDenied",
        "Unforeseen",
    }


def test_the_name_is_what_metrics_show() -> None:
    assert SourceLost().name == "SourceLost"


def test_a_name_cannot_begin_a_line_of_its_own_or_turn_the_text_around() -> None:
    error = AqueductError("detail", table="shop.a\nERROR b\x1b[31m\u202e表 é")
    assert str(error).endswith(r"[table=shop.a\nERROR b\x1b[31m\u202e表 é].")
    assert str(error).isprintable()


HOSTILE = "t\nFORGED\x1b[2J\u202e"
SHOWN = "t\\nFORGED\\x1b[2J\\u202e"


def test_whatever_a_name_contains_an_error_is_one_line_of_visible_characters() -> None:
    message = str(SourceLost(f"of {HOSTILE}", remedy=f"Change {HOSTILE}.", table=HOSTILE))
    assert message.isprintable()
    assert message.count(SHOWN) == 3


def test_faults_have_lines_of_their_own_which_no_name_can_add_to() -> None:
    message = str(
        PreflightError(errors.Faults.listed("2 faults:", [HOSTILE, "other"]), remedy="Do.")
    )
    assert message.split("\n")[1:] == [f"  - {SHOWN}", "  - other", "Do."]
