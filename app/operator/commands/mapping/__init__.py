"""`mapping`: check a mapping, try it, and store, compare and restore its versions."""
