"""Operations on a destination's cursor: view, export, move; skip one transaction."""
