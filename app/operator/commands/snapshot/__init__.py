"""`snapshot`: start, pause, resume and stop the reading of existing rows, and show its progress."""
