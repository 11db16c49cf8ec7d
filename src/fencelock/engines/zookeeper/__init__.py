"""ZooKeeper: locks for correctness on an ensemble, shared with kazoo and Curator.

``engine.py`` is the recipe: join the queue, come first. ``keeping.py`` renews, ``leaving.py``
deletes, ``sweeper.py`` deletes what is due later, ``view.py`` looks from outside. They know nodes
(``nodes.py``), their folders (``folders.py``) and their names and order (``paths.py``), and speak
through a wire per flavor. ``session.py`` is the protocol without any I/O; ``requests.py`` borrows
its messages from kazoo.
"""
