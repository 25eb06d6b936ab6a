"""A cluster on one machine: network namespaces, shaped links, injected faults."""
