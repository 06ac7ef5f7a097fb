"""What must survive: cursors and table versions, their journal, and the Faust tables that checkpoint it."""
