from __future__ import annotations

from tables.rules.mapping.real_name import RealName, listed


def test_a_comma_within_brackets_belongs_to_a_pattern() -> None:
    assert listed("a{1,2}, b,[c,d]") == ("a{1,2}", "b", "[c,d]")
    assert len(listed(",".join(f"t_{at}" for at in range(50_000)))) == 50_000


def test_a_dot_without_a_quantifier_separates_the_database() -> None:
    assert [RealName.of_table(one).database for one in ("a.b", r"a\.b", "a.*", "a.*.b.+")] == [
        "a",
        "a",
        "",
        "a.*",
    ]


def test_a_range_keeps_the_width_of_its_first_bound() -> None:
    assert RealName.of_table("t_[08-10]").name == "t_(?:08|09|10)"
    assert RealName.of_table("t_[0-9]").name == "t_[0-9]"
