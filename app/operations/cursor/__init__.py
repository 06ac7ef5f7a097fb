"""Operations on a destination's cursor: viewed, exported, moved; one transaction skipped."""
