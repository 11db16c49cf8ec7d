"""The checks, by what they are about. Each module is read by ``runner.py``."""
