"""`source`: a switch to another source requested."""
