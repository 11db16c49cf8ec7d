"""I/O that the wires of several engines share. It decides nothing."""
