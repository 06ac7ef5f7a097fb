"""State that must survive: cursors, table versions, their journal, and the Faust tables of its checkpoint."""
