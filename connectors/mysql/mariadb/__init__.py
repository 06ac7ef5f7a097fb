"""What MariaDB does in its own way: GTIDs, events, how a dump is asked for, what the server says of itself."""
