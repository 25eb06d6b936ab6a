"""The commands, one noun a module; bench/cli.py puts them together."""
