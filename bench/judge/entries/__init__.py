"""The texts of the catalogue, by rooms; catalogue.py joins them."""
