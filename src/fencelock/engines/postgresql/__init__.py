"""Locks in PostgreSQL, in three modes: a leased row, an advisory lock, a row of a transaction.

``engine.py`` picks the mode. ``lease.py``, ``session.py`` and ``bound.py`` are the protocols,
``tables.py`` what they need in the database and ``statements.py`` what they say to it. ``link.py``
is one connection, ``wire_threads.py`` and ``wire_aio.py`` are the ways to it in each flavor, and
``listener.py`` hears notifications.
"""
