"""Number, the second step: sequence numbers and table versions, portion after portion in order."""
