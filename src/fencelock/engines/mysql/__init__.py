"""MySQL and MariaDB: leases in a table, or ``GET_LOCK`` on a session.

The lock protocols are ``lease.py`` (the default; ``listener.py`` wakes its waiters) and
``advisory.py``; ``mode=`` picks one of them. The SQL is in ``sql/``, ``lease_sql.py`` and
``get_lock.py``. ``wire/`` has MySQL's client protocol, the connections and their pools.
"""
