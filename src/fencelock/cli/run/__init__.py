"""The parts of ``fencelock run``: the command as a process group, its supervisor, its watchdog."""
