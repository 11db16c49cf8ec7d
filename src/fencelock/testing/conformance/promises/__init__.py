"""The checks, by topic. ``runner.py`` imports each module."""
