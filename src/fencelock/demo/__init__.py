"""``python -m fencelock.demo``: a holder freezes past its lease, and the fence prevents the harm.

Several processes sell the seats of one small theater, taking turns under one lock.  One of them is
stopped between its look at the seat map and its write, for longer than its lease lasts.  Another
takes over and sells that very seat.  Then the first one wakes up and writes.  The store refuses
that write, because it has seen a higher fence.  With ``--unsafe`` it does not look at fences, and
the seat is sold twice.

``worker.py`` is what a program of yours would contain: work under a lock, and a resource whose
guard checks the fence.  ``scenario.py`` starts, freezes and wakes the workers, and ``verdict.py``
judges the result by the records of the store.
"""
