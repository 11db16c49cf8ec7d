"""The etcd engine: the recipe of ``etcdctl lock`` and Go's ``concurrency.Mutex``, for Python.

``engine.py`` is the mutex: join the queue, read it, wait, leave. ``rwlock.py`` and ``semaphore.py``
are the locks with several holders: ``contention.py`` has the steps that both share,
``share_keys.py`` their keys. ``memo.py`` stores the numbers that are remembered for a name.

``queue.py`` reads the queue of a mutex, ``own_key.py`` is one key of the client's own with the etcd
lease that it is attached to. ``own_keys.py`` is the registry of both, and ``lease.py`` keeps the
leases alive. ``watch.py`` wakes waiters, ``renewal.py`` renews and revokes, ``listing.py`` and
``doctor.py`` serve inspection and diagnosis. ``keys.py`` makes keys, values and the requests of the
hot path. ``cluster.py`` chooses the member that a call goes to and maps its errors; ``wire/``
carries bytes over gRPC, ``messages/`` encodes and decodes them. No client package is used: the few
messages are written out here, so nothing is registered with protobuf and nothing can clash.
"""
