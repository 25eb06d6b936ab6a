"""Run it: preflight, an agent per rank, a fresh worker process per case. The only room with torch."""
