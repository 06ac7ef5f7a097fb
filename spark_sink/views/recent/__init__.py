"""Recent changes: records stored within a second, before they are merged, and tables with them applied."""
