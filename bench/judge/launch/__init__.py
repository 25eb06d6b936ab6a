"""Whether a job can start on these hosts: where ranks meet, names, limits, clocks, versions."""
