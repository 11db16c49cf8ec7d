"""The engine over a lock service (``fencelock serve``): HTTP and JSON, one poll for all waiters.

``engine.py`` is the recipe. ``replicas.py`` sends a call to a node of the service and reads or maps
its reply; ``listener.py`` polls for waiters, ``observers.py`` for observers of a name;
``attempts.py`` is the registry of the attempts that are over. ``messages.py`` has the bodies; the
connections are those of ``engines/_http``.
"""
