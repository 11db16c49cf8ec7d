"""Guards: the check at the resource, which refuses operations of a holder whose lease was lost.

A lock alone cannot stop a holder that was frozen past its ttl and wakes up in the middle of a
write. The resource can: it stores the highest fence that it has seen for a name, its *mark*, and
refuses a smaller one with StaleFence, in the same atomic step as the operation. Reads count, too:
``enter`` at the start of a tenure raises the mark, so that an older holder cannot change a value
between its read and its write.

These rules hold for all guards:

- A fence that is equal to or higher than the mark is accepted, and becomes the mark.
- Readers have a mark of their own. A writer is refused if a later reader or writer was seen, a
  reader if a later writer was. A lease has a role that says which it is; for a bare fence,
  ``reading=`` does.
- A guard takes a lease, which has a name, or a bare fence, an integer, with ``name=``. So the check
  can be made in another process, or in a service that knows nothing of locks.
- If the store of the marks cannot be reached, an EngineError is raised and nothing is done.
- ``reset`` and ``epoch`` move a name to an engine whose fences are smaller; ``forget`` removes the
  marks that were not raised for a given time.

Each resource has a module of its own, which imports its driver only when it is used.
"""
