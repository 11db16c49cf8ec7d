"""What is the same for every engine: arithmetic, the waiting loop, the hold, the keeper."""
