"""The number of examples of a property that names none."""

from hypothesis import settings

from tests.properties.examples import examples

settings.register_profile("shared", max_examples=examples(100))
settings.load_profile("shared")
