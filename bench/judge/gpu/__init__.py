"""The GPU side of a host: PCIe, NVLink and peer access, found against expected."""
