"""Number, the second step: sequence numbers and table versions, chunk after chunk in order."""
