"""Locks in Redis and Valkey, on one server, behind Sentinel, in a cluster, or over a majority."""
