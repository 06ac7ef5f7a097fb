"""Background tasks beside the batches: reloads of tables, and scheduled maintenance."""
