"""MySQL and MariaDB: leases in a table, ``GET_LOCK`` on a session, or a locked row.

The recipes are ``lease.py`` (the default; ``listener.py`` wakes its waiters), ``advisory.py`` and
``row.py``; ``mode=`` picks one of them. The SQL is in ``tables.py``, ``lease_sql.py``,
``get_lock.py`` and ``row_sql.py``. ``wire/`` has the protocol, the connections and their pools.
"""
