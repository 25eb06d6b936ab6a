"""A dead or hung job into findings: what its ranks left behind, and which rank it points to."""
