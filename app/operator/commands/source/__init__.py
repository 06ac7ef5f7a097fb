"""`source`: request a switch to another source."""
