"""The wire contract as the sink reads it: names, headers, the envelope; and text that stays one line."""
