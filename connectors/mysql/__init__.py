"""Reading a MySQL server as its replica: stream, events, table maps, row images, preflight."""
