"""The topics' records: each against its change, the totals, and the transaction markers."""
