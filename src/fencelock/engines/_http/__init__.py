"""The HTTP/1.1 client that engines share: connection pools for nodes, in both flavors.

``wire/`` has the connections and the pools; ``errors.py`` has the errors of requests without a
response. Responses are interpreted by each engine.
"""
