"""Run it: preflight, an agent per rank, a fresh worker per case. The only room with torch."""
