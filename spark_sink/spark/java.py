"""Classes and collections of the JVM, in few requests.

Written as `jvm.a.b.C`, Py4J looks for classes `a` and `a.b` in all jars before it finds `C`. A Java iterator
ends with an exception, of which PySpark asks a dozen times what it is. Each takes longer than most calls.
"""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """A class by its full name."""
    return getattr(jvm, name)


def texts(jvm: Any, values: Any) -> list[str]:
    """The elements of a Java collection of strings without line breaks."""
    joined = str(java_class(jvm, "java.lang.String").join("\n", values))
    return joined.split("\n") if joined else []


def matching(jvm: Any, pattern: str, values: Any) -> Any:
    """A Java list of those strings of a collection that a Java regular expression matches as a whole."""
    kept = java_class(jvm, "java.util.ArrayList")(values)
    matches = java_class(jvm, "java.util.regex.Pattern").compile(pattern).asMatchPredicate()
    kept.removeIf(getattr(java_class(jvm, "java.util.function.Predicate"), "not")(matches))
    return kept
