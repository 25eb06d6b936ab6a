"""The catalogue's texts, one module per room of the catalogue; catalogue.py joins them."""
