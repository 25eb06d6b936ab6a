"""A dead or running job told: the screen, the page with its timeline, what each node launches."""
