"""Records of an operator's requests: desired state, skips, source choice, interventions, outcomes."""
