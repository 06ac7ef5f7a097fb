"""`destination`: list all destinations, and set the desired state of one."""
