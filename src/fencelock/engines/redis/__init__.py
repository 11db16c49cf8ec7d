"""Locks in Redis and Valkey: on one server, behind Sentinel, or in a cluster.

* ``engine.py``: the recipe, over ``scripts/``, ``keys.py`` and ``listener.py`` (the waiters).
* ``script_runner.py`` and ``topology.py``: run a script at the server that serves its key.
* ``prepacked.py``: requests built of parts that are packed once; ``wire/``: connections.
* ``inspect.py``, ``doctor.py``: what others see of a lock, and what would break a promise.
"""
