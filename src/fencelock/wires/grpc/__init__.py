"""gRPC over HTTP/2, as much of it as a lock needs: short calls, and streams that go on.

The package ``grpcio`` would do the same. It takes a quarter of a millisecond of processor time for
each call, which is more than most locks take to be had, brings threads of its own that a fork does
not survive, and holds calls back when a stream begins while Ctrl-C strikes. A lock service sends
small messages to a server that it knows, so what is left out here is much: compression, name
services, balancing, retries, proxies.

``hpack.py`` reads and writes headers, ``call.py`` knows what one call is, ``connection.py`` the
frames of a connection; none of them does I/O. What moves the bytes is there once for each flavor.
"""
