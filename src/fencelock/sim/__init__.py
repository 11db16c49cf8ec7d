"""A seeded simulation: virtual time, processes that pause and crash, one seed for all chance."""
