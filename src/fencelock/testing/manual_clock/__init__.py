"""Clients over an engine in memory whose clock is moved by hand; ``testing.client()`` makes one."""
