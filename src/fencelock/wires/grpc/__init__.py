"""gRPC over HTTP/2, as much of it as a lock needs: short calls, and long-lived streams.

The package ``grpcio`` would do the same. But it takes a quarter of a millisecond of processor time
for each call, about as long as etcd takes to serve it; it has threads of its own that a fork does
not survive; and its channel never closes if Ctrl-C strikes while a stream begins. Here are small
messages to a server at a known address, so much is left out: compression, name services, load
balancing, retries, proxies.

``hpack.py`` reads and writes headers, ``status.py`` says how a call ended, ``connection.py`` is the
state of a connection, its calls and frames; none of them does I/O. ``client_threads.py`` and
``client_aio.py`` are the connections that callers share, for calls and, in asyncio, for streams;
``stream_threads.py`` is a stream of threads.
"""
