"""What the wires of several engines share: like them it touches the machine and decides nothing."""
