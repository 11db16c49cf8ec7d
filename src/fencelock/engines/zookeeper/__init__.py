"""ZooKeeper: locks for correctness on an ensemble, shared with kazoo and Curator.

``engine.py`` and ``queue.py`` are the recipe: create a node, come first. ``shares.py`` has those of
semaphores and read/write locks. ``renewal.py`` renews, ``deletion.py`` deletes, now or when it is
due, and ``inspect.py`` reads locks from outside. They know nodes (``node.py``), their folders
(``folders.py``) and their names and order (``paths.py``). ``memos.py`` is what is remembered for
names, ``observers.py`` tells of changes. Below them, ``wire/`` is ZooKeeper's client protocol, for
threads and for asyncio.
"""
