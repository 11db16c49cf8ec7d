"""ZooKeeper: locks for correctness on an ensemble, shared with kazoo and Curator.

``engine.py`` and ``queue.py`` are the recipe of the mutex, ``shares.py`` has those of semaphores
and read/write locks. ``renewal.py`` renews, ``takeover.py`` moves grants between sessions,
``deletion.py`` deletes nodes, now or at their end, and ``inspect.py`` reads and revokes the locks
of all clients. They build on nodes (``node.py``), their parent nodes (``folders.py``), and their
names and order (``paths.py``). ``memos.py`` remembers numbers for names, ``observers.py`` reports
changes. Below them, ``wire/`` is ZooKeeper's client protocol, for threads and for asyncio.
"""
