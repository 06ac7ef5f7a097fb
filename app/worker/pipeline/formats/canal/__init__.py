"""Canal's flat JSON: each change as one FlatMessage, with all values as texts."""
