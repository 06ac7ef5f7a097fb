"""The part of PromQL that the alert rules use, evaluated on a test's series.

Invariant: unsupported syntax is an error, so a rule that cannot be evaluated fails its test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float
Series = Mapping[tuple[str, Labels], Callable[[float], float | None]]
"""A function from a metric's name, labels and time in seconds to its value; None if it does not exist."""

STEP = 10.0
_TOKEN = re.compile(
    r"\s*(?:(\d+[smhd])\b|(\d+(?:\.\d+)?)|([A-Za-z_][\w:]*)|(==|=~|>=|[-*(){}\[\],<>=])|\"([^\"]*)\")"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SETS = ("and", "unless")


def tokens(text: str) -> list[str]:
    """The words and signs; strings keep a quote before them."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"not understood: {text[at : at + 40]}")
        duration, number, word, sign, string = match.groups()
        found.append(f'"{string}' if string is not None else number or word or sign or duration)
        at = match.end()
    return [*found, ""]


def seconds(text: str) -> float:
    """A duration such as ``5m``."""
    return float(text[:-1]) * _UNITS[text[-1]]


@dataclass(slots=True)
class Evaluation:
    """One expression at one moment."""

    series: Series
    now: float
    words: list[str]
    at: int = 0

    @classmethod
    def of(cls, expression: str, series: Series, now: float) -> Vector:
        """The expression's vector."""
        found = cls(series, now, tokens(expression))
        value = found._or()
        if found.words[found.at] or isinstance(value, float):
            raise ValueError(f"not understood from {found.words[found.at :]}")
        return value

    def _take(self, *words: str) -> bool:
        if self.words[self.at] not in words:
            return False
        self.at += 1
        return True

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise ValueError(f"expected {word}, not {self.words[self.at]!r}")

    def _next(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def _or(self) -> Value:
        left = self._sets()
        while self._take("or"):
            right = self._sets()
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            left = right | left
        return left

    def _sets(self) -> Value:
        left = self._compared()
        while self.words[self.at] in _SETS:
            keeps = self._next() == "and"
            on = self._names() if self._take("on") else None
            right = self._compared()
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            known = {_only(labels, on) for labels in right}
            left = {one: v for one, v in left.items() if (_only(one, on) in known) is keeps}
        return left

    def _compared(self) -> Value:
        left = self._sum()
        sign = self.words[self.at]
        if sign not in ("==", ">", ">=", "<"):
            return left
        self.at += 1
        right = self._sum()
        assert isinstance(left, dict)
        assert isinstance(right, float)
        holds: dict[str, Callable[[float], bool]] = {
            "==": lambda v: v == right,
            ">": lambda v: v > right,
            ">=": lambda v: v >= right,
            "<": lambda v: v < right,
        }
        return {one: v for one, v in left.items() if holds[sign](v)}

    def _sum(self) -> Value:
        left = self._product()
        while self._take("-"):
            left = _paired(left, self._product(), lambda a, b: a - b)
        return left

    def _product(self) -> Value:
        left = self._one()
        while self._take("*"):
            left = _paired(left, self._one(), lambda a, b: a * b)
        return left

    def _one(self) -> Value:
        word = self._next()
        if word[0].isdigit():
            return float(word)
        if word == "(":
            inner = self._or()
            self._need(")")
            return inner
        if word == "time":
            self._need("(")
            self._need(")")
            return self.now
        if word in ("max", "sum"):
            by = self._names() if self._take("by") else frozenset()
            self._need("(")
            inner = self._or()
            self._need(")")
            assert isinstance(inner, dict)
            return _grouped(inner, by, max if word == "max" else sum)
        if word in ("rate", "increase"):
            self._need("(")
            grown = self._selected(self._next(), per_second=word == "rate")
            self._need(")")
            return grown
        if word == "histogram_quantile":
            raise NotImplementedError(word)
        return self._selected(word)

    def _names(self) -> frozenset[str]:
        self._need("(")
        found = set()
        while not self._take(")"):
            found.add(self._next())
            self._take(",")
        return frozenset(found)

    def _selected(self, name: str, *, per_second: bool = False) -> Vector:
        wanted = self._matchers() if self._take("{") else []
        window = 0.0
        if self._take("["):
            window = seconds(self._next())
            self._need("]")
        now = self.now - seconds(self._next()) if self._take("offset") else self.now
        result: Vector = {}
        for (metric, labels), value in self.series.items():
            given = dict(labels)
            if metric != name or not all(fits(given.get(label, "")) for label, fits in wanted):
                continue
            found = value(now) if not window else _grown(value, now, window)
            if found is not None:
                result[labels] = found / window if per_second else found
        return result

    def _matchers(self) -> list[tuple[str, Callable[[str], bool]]]:
        found: list[tuple[str, Callable[[str], bool]]] = []
        while not self._take("}"):
            label, sign, text = self._next(), self._next(), self._next()[1:]
            expression = text if sign == "=~" else re.escape(text)
            found.append((label, lambda v, e=expression: re.fullmatch(e, v) is not None))  # type: ignore[misc]
            self._take(",")
        return found


def _grown(value: Callable[[float], float | None], now: float, window: float) -> float | None:
    at = [value(now - n * STEP) for n in range(int(window / STEP) + 1)]
    there = [one for one in at if one is not None]
    return there[0] - there[-1] if len(there) > 1 else None


def _only(labels: Labels, on: frozenset[str] | None) -> Labels:
    return labels if on is None else frozenset(one for one in labels if one[0] in on)


def _grouped(vector: Vector, by: frozenset[str], merge: Callable[[list[float]], float]) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        groups.setdefault(_only(labels, by), []).append(value)
    return {labels: float(merge(values)) for labels, values in groups.items()}


def _paired(left: Value, right: Value, what: Callable[[float, float], float]) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return what(left, right)
    if isinstance(left, float):
        assert isinstance(right, dict)
        return {one: what(left, v) for one, v in right.items()}
    if isinstance(right, float):
        return {one: what(v, right) for one, v in left.items()}
    return {one: what(v, right[one]) for one, v in left.items() if one in right}


def fires(rule: Mapping[str, str], series: Series, now: float) -> bool:
    """Whether a rule's alert fires for some labels: its expression held for the rule's duration."""
    span = seconds(rule.get("for", "0s"))
    held: set[Labels] | None = None
    for n in range(int(span / STEP) + 1):
        found = set(Evaluation.of(rule["expr"], series, now - n * STEP))
        held = found if held is None else held & found
    return bool(held)
