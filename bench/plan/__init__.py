"""What to measure: candidate networks and paths, cases, sizes, a budget."""
