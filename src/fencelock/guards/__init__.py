"""Guards: the check at the resource, which refuses what a holder does after its lease was lost.

A lock alone cannot stop a holder that was frozen past its ttl and wakes up in the middle of a
write. The resource can: it remembers the highest fence that it has seen for a name, its *mark*, and
refuses a smaller one with StaleFence, in the same atomic step as the operation. Reads count, too:
``enter`` at the start of a tenure raises the mark, so that a value that was read is not changed by
an older holder before it is written back.

All guards agree on this, whatever the resource is:

- A fence that is equal to or higher than the mark is accepted, and is the mark from then on.
- Readers have a mark of their own. A writer is refused if a later reader or writer was seen, a
  reader if a later writer was. A lease says itself which it is, for a bare fence ``reading=`` does.
- Lease or bare fence: a lease brings its name along, an integer needs ``name=``. So the check can
  be made in another process, or in a service that knows nothing of locks.
- When the store of the marks cannot be reached, an EngineError says so and nothing is done.
- ``reset`` and ``epoch`` move a name to an engine whose fences are smaller; ``forget`` removes the
  marks that nobody has raised for a given time.

Each resource is a module of its own, and imports its driver only when it is used.
"""
