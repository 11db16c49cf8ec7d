"""MySQL and MariaDB: leases in a table, ``GET_LOCK`` on a session, or a locked row.

``engine.py`` chooses the mode. ``lease.py`` is the default and ``listener.py`` wakes its waiters;
``advisory.py`` and ``row.py`` are the modes that a session or a transaction carries. ``tables.py``
and ``statements.py`` have all SQL. ``codec.py`` speaks the protocol of the server without touching
a socket; ``wire_threads.py`` and ``wire_aio.py`` do that, after a driver has connected.
"""
