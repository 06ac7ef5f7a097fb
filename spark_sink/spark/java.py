"""Classes and collections of the JVM, in few requests.

For `jvm.a.b.C`, Py4J looks for classes `a` and `a.b` in all jars before it finds `C`. A Java iterator ends with
an exception, and PySpark makes a dozen requests to learn its kind. Either takes longer than most calls.
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
    """A Java list of the strings in a collection that a Java regular expression matches as a whole."""
    kept = java_class(jvm, "java.util.ArrayList")(values)
    matches = java_class(jvm, "java.util.regex.Pattern").compile(pattern).asMatchPredicate()
    kept.removeIf(getattr(java_class(jvm, "java.util.function.Predicate"), "not")(matches))
    return kept
