"""Locks in PostgreSQL, in three modes: a leased row, an advisory lock, a row of a transaction.

``lease.py``, ``advisory.py`` and ``row.py`` are the protocols; ``engine.py`` is what they share.
``sql/`` has the objects that they need in the database and the statements that they send;
``statements.py`` reads them. ``listener.py`` receives notifications for waiters. The parts of
``advisory.py`` are ``session_pool.py``, ``held_locks.py`` and ``holder_table.py``. Only ``wire/``
uses libpq.
"""
