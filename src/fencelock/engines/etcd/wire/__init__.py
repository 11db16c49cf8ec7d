"""Connections to the members of a cluster, one implementation for each flavor."""
