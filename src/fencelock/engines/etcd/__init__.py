"""The etcd engine: the recipe of ``etcdctl lock`` and Go's ``concurrency.Mutex``, for Python.

``engine.py`` is the recipe: join the queue, look, wait, leave. ``rwlock.py`` and ``semaphore.py``
are those of names that several hold: ``contention.py`` has the steps that they share,
``share_keys.py`` their keys. ``memo.py`` is what is remembered for names.

``queue.py`` reads the queue of a mutex,
``own_keys.py`` is the registry of the client's own keys and the etcd leases they are on, which
``lease.py`` keeps alive. ``watch.py`` wakes waiters, ``renewal.py`` renews and revokes,
``listing.py`` and ``doctor.py`` are for people. ``keys.py`` makes keys, values and the requests of
the hot path. ``cluster.py`` chooses the member that a call goes to and maps its
errors; ``wire/`` carries bytes over gRPC, ``messages/`` encodes and decodes them. There is no
client package to rely on: the few messages are written out here, so nothing is registered with
protobuf and nothing can clash.
"""
