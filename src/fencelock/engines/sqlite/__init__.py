"""The embedded engine: one SQLite file for all processes of one machine.

``engine.py`` is the protocol and ``ledger.py`` its transactions; ``file.py`` opens and checks the
file, ``handle.py`` is the open file, ``pin.py`` keeps its WAL in place, and ``inbox.py`` is the
push between processes.
"""
