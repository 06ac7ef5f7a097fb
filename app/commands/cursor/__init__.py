"""`cursor`: a destination's cursor shown, set, exported and imported; one transaction skipped."""
