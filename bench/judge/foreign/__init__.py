"""Judges of foreign evidence: records of files that others wrote, into findings."""
