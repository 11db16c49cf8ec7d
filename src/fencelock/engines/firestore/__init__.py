"""Locks in a collection of Google Cloud Firestore: a document exists while its lock is held."""
