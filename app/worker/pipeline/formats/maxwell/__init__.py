"""Maxwell's JSON: each change as one object, with typed values."""
