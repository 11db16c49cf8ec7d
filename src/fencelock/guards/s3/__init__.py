"""A guard for objects of S3 and of stores like it, by conditional writes.

    guard = S3Guard(boto3.client("s3"), "bucket")
    with client.lock("report") as lease:
        data = guard.enter("report.json", lease)        # raises the mark, and reads
        guard.put("report.json", change(data), lease)

The mark is in the first line of the object itself; ``Envelope`` in ``operations.py`` says why. So
other programs read the object with ``guard.read``, or skip its first bytes. The store must support
If-Match and If-None-Match for writes, as S3 does since the end of 2024: ``guard.probe()`` tests
that.

The tests run against SeaweedFS, a real object store with S3's interface, and not against AWS.
"""

from __future__ import annotations

from .guard import AsyncS3Guard, S3Guard
from .operations import SIZE, unwrap, wrap

__all__ = ["SIZE", "AsyncS3Guard", "S3Guard", "unwrap", "wrap"]
