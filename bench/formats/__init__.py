"""Files into records: our TOML files, and the formats of other tools."""
