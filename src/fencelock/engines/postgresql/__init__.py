"""Locks in PostgreSQL, in three modes: a leased row, an advisory lock, a row of a transaction.

``lease.py``, ``advisory.py`` and ``row.py`` are the protocols; ``engine.py`` is what they share.
``sql/`` has what they need in the database and the statements they send; ``statements.py`` reads
them. ``listener.py`` receives notifications for waiters. What an advisory lock takes beside its
protocol is in ``session_pool.py``, ``held_locks.py`` and ``holder_table.py``. ``wire/`` is all that
knows libpq.
"""
