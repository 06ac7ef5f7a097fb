"""The schema store: a MySQL that holds many installations' schema histories."""
