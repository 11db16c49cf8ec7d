"""The embedded engine: one SQLite file for all processes of one machine.

``engine.py`` is the protocol, ``ledger.py`` the transactions, ``file.py`` the opening and checking
of the file, ``inbox.py`` the push between processes.
"""
