"""Shared code of the SQL engines whose locks belong to a session or a transaction.

Such a lock is the server's own: it is held until it is unlocked or its session ends, and a caller
that must wait does so in the server's queue. ``row_engine.py`` is the protocol of locks that live
in a transaction; the other modules are parts of it and of the engines with session locks.
``sections.py`` reads SQL files.
"""
