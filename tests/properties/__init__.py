"""Properties that hold for any input, one folder for each layer; hypothesis looks for a counterexample."""
