"""The embedded engine: one SQLite file for all processes of one machine.

``engine.py`` is the recipe and ``transactions.py`` its transactions, with their SQL; ``shares.py``,
``inspect.py`` and ``memos.py`` have those for other tables and for reading. ``listener.py`` wakes
the waiters of a client. In ``wire/``, ``file.py`` opens and checks the file, ``database.py`` is the
open file, ``wal_pin.py`` keeps its WAL in place, ``mounts.py`` knows file systems, and ``inbox.py``
is the push between processes.
"""
