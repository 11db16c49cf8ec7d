"""Locks in a collection of Google Cloud Firestore: a document is there while its lock is held."""
