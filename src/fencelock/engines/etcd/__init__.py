"""The etcd engine: the recipe of ``etcdctl lock`` and Go's ``concurrency.Mutex``, for Python.

``engine.py`` is the protocol. ``session.py`` keeps etcd leases alive and takes away what nobody
renews, ``watcher.py`` tells waiters that the one before them has gone. ``link.py`` chooses the
member to speak to and says what its errors mean; ``wire_threads.py`` and ``wire_aio.py`` carry
bytes over gRPC. ``requests.py`` makes those bytes and ``replies.py`` reads them, both by the rules
in ``protobuf.py``. There is no client package to rely on: the few messages are written out here, so
nothing is registered with protobuf and nothing can clash.
"""
