"""Two sides of a comparison: what surrounds them, what differs, what became of the figures."""
