"""Pairs of hosts: from their figures to the host, rail, link or leaf that is slow."""
