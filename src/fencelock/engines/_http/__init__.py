"""The HTTP/1.1 client that engines share: pools of connections to nodes, in both flavors.

``wire/`` has the connections and the pools; ``errors.py`` says what became of a request that had no
answer. What an answer means is for each engine to say.
"""
