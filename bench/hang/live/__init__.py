"""A hung job of somebody else, asked while it lives: nothing here stops or changes it."""
