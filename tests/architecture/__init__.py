"""The rules of the project, checked: imports, files, documents, and deployment."""
