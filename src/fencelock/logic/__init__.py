"""What is the same for every engine: arithmetic, the waiting loop, the tenure, the keeper."""
