"""Generator of the shop's rows: text of many scripts, exact numbers, times to the microsecond."""

import json
import random
from datetime import UTC, datetime, timedelta

Row = tuple[object, ...]

_NAMES = (
    "Zoë",
    "李小龙",
    "Ann 🚀",
    "Žofie",
    "عائشة",
    "O'Brien",
    "Bob\\",
    "naïve 👩🏽‍💻",
    "Иван",
    "林さん",
)
_NOTES = (None, "", "leave it at the door 🚪", 'line one\nline two\t"quoted"')
_OPTIONS = (None, '{"colour": "красный", "size": 42}', "[]", '"plain text"', "null")
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def customer(rng: random.Random, id_: int) -> Row:
    """A row of `customers`."""
    now = moment(rng)
    profile = {
        "lang": rng.choice(["en", "zh", "cs"]),
        "score": rng.random(),
        "tags": ["a", None, "🎈"],
    }
    interests = ",".join(w for w in ("books", "garden", "music", "toys") if rng.random() < 0.4)
    return (
        id_,
        f"c{id_}@example.test",
        name(rng),
        rng.choice(("basic", "silver", "gold")),
        interests,
        decimal(rng, 10**9, 2),
        rng.choice((None, json.dumps(profile, ensure_ascii=False))),
        rng.choice((None, b"", rng.randbytes(rng.randint(1, 32)))),
        rng.choice((None, now.date())),
        now,
        rng.choice((None, milliseconds(now))),
    )


def order(rng: random.Random, id_: int, customer: int) -> Row:
    """A row of `orders`, without the column that comes later."""
    details = {
        "gift": rng.random() < 0.1,
        "n": rng.randint(-(2**62), 2**62),
        "deep": {"é": [1.5, {}]},
    }
    note = rng.choice(_NOTES)
    total = decimal(rng, 10**15, 4)
    return (
        id_,
        customer,
        "new",
        total,
        note,
        json.dumps(details, ensure_ascii=False),
        moment(rng),
        None,
    )


def item(rng: random.Random, order: int, line: int) -> Row:
    """A row of `order_items`, the key's columns first."""
    return (
        order,
        line,
        f"SKU-{rng.randint(1, 10**6):06d}",
        rng.randint(-5, 500),
        decimal(rng, 10**6, 2),
        rng.choice((None, rng.random() * 100)),
        rng.random() < 0.2,
        rng.choice(_OPTIONS),
    )


def decimal(rng: random.Random, below: int, scale: int) -> str:
    """A number between -below and below at that scale, as text."""
    return f"{rng.randint(-below, below) / 10**scale:.{scale}f}"


def moment(rng: random.Random) -> datetime:
    """A moment of this year."""
    return _EPOCH + timedelta(microseconds=rng.randrange(10**6 * 86_400 * 300))


def milliseconds(moment: datetime) -> datetime:
    """The time cut to the precision of TIMESTAMP(3)."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def name(rng: random.Random) -> str:
    """A customer's name."""
    return rng.choice(_NAMES)
