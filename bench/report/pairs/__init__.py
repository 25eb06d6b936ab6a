"""Rounds of pairs told: the heat map, the suspects, the file for a scheduler's drain command."""
