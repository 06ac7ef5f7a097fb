"""The command lines of the product's programs."""

import pytest

from devstack.programs import environment


def test_a_users_settings_are_kept_from_a_program_and_what_is_given_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AQUEDUCT_PREFIX", "a user's")
    monkeypatch.setenv("AQUEDUCT_SPARK_JARS", "/jars")
    monkeypatch.setenv("HOME", "/home")
    found = environment(AQUEDUCT_CONFIG="ours.yaml")
    assert "AQUEDUCT_PREFIX" not in found
    given = ("ours.yaml", "/jars", "/home")
    assert (found["AQUEDUCT_CONFIG"], found["AQUEDUCT_SPARK_JARS"], found["HOME"]) == given
