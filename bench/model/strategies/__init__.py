"""What DDP, ZeRO and FSDP take of a GPU's memory and of a fabric's time."""
