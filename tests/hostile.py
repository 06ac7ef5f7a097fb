"""Names that MySQL takes, and that some layer above it may take for more than a name."""

NAMES = (
    "${x}", "${env:HOME}", "${system:user.home}", "${spark:spark.master}", "{}", "{0.__class__}", "%s%n",
    "%(a)s",
    "a`b``", "q'u''o", 'd"q', "new\nline", "ret\rurn", "tab\tbed", "con\x01\x1b[31mtrol\x7f",
    "r\u202eight\u200f",
    "..", "../up", "/", "a/b", "a.b", "a-b", "a_b", "a-5fb", "\\", "\\u0041", "a b", "--", "/*!50000", ";", "#",
    "é", "\u1e9e", "表" * 64, "😀" * 64, "$1", "*", "?", "(a", "[a", "a|b", "a,b", "a=b", "a:b", "<b>",
    "null", "true", "select", "CON", "`", "'", '"',
)  # fmt: skip


def quoted(name: str) -> str:
    """As MySQL quotes it."""
    return f"`{name.replace('`', '``')}`"
