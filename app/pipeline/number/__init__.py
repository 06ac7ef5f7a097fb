"""Number, the second: sequence numbers and table versions, chunk after chunk in their order."""
