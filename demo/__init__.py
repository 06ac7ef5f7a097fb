"""A demonstration on real servers: Aqueduct runs, is interrupted, and is shown to lose nothing."""
