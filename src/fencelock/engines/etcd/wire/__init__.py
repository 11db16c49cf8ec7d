"""Connections to the members of a cluster, one implementation for each flavor."""

WORK, RENEWAL = 0, 1  # channels to each member: a renewal never queues behind other work
