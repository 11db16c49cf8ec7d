"""Locks in a table of Google Cloud Spanner."""
