"""The audit, held to a real worker's records and to faults planted in them."""
