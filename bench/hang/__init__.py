"""A dead job into findings: phases, first faults."""
