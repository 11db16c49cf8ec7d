"""The parts that are the same for every engine: arithmetic, waiting loop, hold, keeper."""
