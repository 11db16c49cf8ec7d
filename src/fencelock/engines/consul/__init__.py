"""Locks in Consul's key/value store, held by sessions: the recipe of ``consul lock``."""
