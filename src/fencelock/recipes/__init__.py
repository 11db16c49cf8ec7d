"""Recipes: what is built from locks, from numbers that an engine remembers, and from hints that
something has changed.

A recipe never knows the engine, and an engine never knows the recipe. ``election.py``, ``once.py``,
``barrier.py`` and ``latch.py`` hold each recipe once, as ``async def`` over the core of a client;
``sync.py`` and ``aio.py`` are what a user gets, one line for each method. They stand above the
client, which makes them: ``client.election(…)`` imports them when it is first called.
"""
