"""Findings to people: the run's folder, the terminal screen, the page, exports."""
