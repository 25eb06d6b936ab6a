"""What training strategies cost, told: a table, the recommendation, a chart over hosts."""
