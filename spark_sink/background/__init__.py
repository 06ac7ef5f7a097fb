"""What runs beside the batches: reloads of tables, and maintenance on its schedule."""
