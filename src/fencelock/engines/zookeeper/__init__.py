"""ZooKeeper: locks for correctness on an ensemble, shared with kazoo and Curator.

``engine.py`` is the recipe: create a node, come first. ``renewal.py`` renews, ``deletion.py``
deletes, now or when it is due, and ``inspect.py`` reads locks from outside. They know nodes
(``node.py``), their folders (``folders.py``) and their names and order (``paths.py``). Below them,
``wire/`` is ZooKeeper's client protocol, for threads and for asyncio.
"""
