"""How a job is started, by its files: what each node launches, and whether that fits."""
