"""The lock service: HTTP and JSON in front of any engine, for programs in any language.

The service translates. It keeps no lock, no session and no fence of its own: who holds what is
known by the engine alone, so a node can be killed, doubled or replaced while locks are held. The
layers, from the socket down: ``server`` (uvicorn, signals), ``app`` (bytes to the Call and Answer
of ``call``), ``calls`` (the table of paths), ``access`` (who may do what, how often), ``handlers``
(what each call does), ``tickets`` (which requests wait, and which polls for them), and below them
the Engine.

``call``, ``calls``, ``access``, ``handlers``, ``tickets``, ``node`` and ``problems`` are protocol
code: they see time, waiting and randomness only through a World.
"""
