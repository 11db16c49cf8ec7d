"""Locks in the CP Subsystem of Hazelcast: its FencedLock."""
