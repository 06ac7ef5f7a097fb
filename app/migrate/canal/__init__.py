"""Canal's ``conf`` folder imported: its keys, its cursors, its topics."""
