"""The client engine names this package and, in the simulator, uses nothing of it."""
