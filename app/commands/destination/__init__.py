"""`destination`: all destinations listed, and the desired state of one."""
