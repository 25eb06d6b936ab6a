"""Nights told, and the folder of runs they are read from: archive, baseline, trend."""
