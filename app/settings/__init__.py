"""Settings: the model, the file they are read from, and error messages about them."""
