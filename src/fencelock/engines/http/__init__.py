"""The engine of a lock service (``fencelock serve``): HTTP and JSON, one poll for all waiters.

``engine.py`` is the recipe. ``replicas.py`` sends a call to a node of the service and maps what it
answers; ``listener.py`` polls for the waiters, ``observers.py`` for those who observe a name;
``attempts.py`` knows which attempts are over. ``messages.py`` has the bodies; the connections are
those of ``engines/_http``.
"""
