"""Two sides told: the table as benchstat users know it, a pull request's Markdown, a page."""
