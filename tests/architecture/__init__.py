"""The laws of the house, checked: imports, files, documents, and what is deployed."""
