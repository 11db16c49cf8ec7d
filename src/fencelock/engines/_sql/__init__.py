"""What the engines of SQL databases share whose locks belong to a session or a transaction.

Such a lock is the server's own: it is held until somebody unlocks it or its session ends, and
whoever has to wait does so in the server's queue. ``row_engine.py`` is the recipe of locks that
live in a transaction; the other modules are its parts, and those of locks of sessions.
``sections.py`` reads files of SQL.
"""
