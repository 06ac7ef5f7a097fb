"""What an operator runs: the commands, the operations that they call, and the comparison of rows."""
