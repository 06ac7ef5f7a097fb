"""The steps of the pipeline know record formats by their Protocol; the registry alone names one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.architecture.tree import Module, module_from, modules

FORMATS = "app.worker.pipeline.formats."
KNOWN = (f"{FORMATS}protocol", f"{FORMATS}registry")


def bound_to_a_format(found: Iterable[Module]) -> Iterator[str]:
    """Modules of the product beside the formats that import one of them."""
    for module in found:
        if module.name.startswith((FORMATS, "tests.")):
            continue
        for source in sorted({source for source, _ in module.imports()}):
            if source.startswith(FORMATS) and source not in KNOWN:
                yield f"{module.file.path} imports {source}"


def test_no_step_is_bound_to_a_format() -> None:
    assert list(bound_to_a_format(modules())) == []


def test_a_step_that_imports_a_format_is_found() -> None:
    planted = [
        module_from("app/worker/pipeline/encode/a.py", f"from {FORMATS}debezium import Debezium\n"),
        module_from("app/worker/pipeline/encode/b.py", f"from {FORMATS}protocol import Records\n"),
    ]
    assert list(bound_to_a_format(planted)) == [
        f"app/worker/pipeline/encode/a.py imports {FORMATS}debezium"
    ]
