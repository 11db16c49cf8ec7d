"""A guard for objects of S3: conditional writes, with the mark in the first line of the object.

It needs a bucket, and what boto3 finds it by (AWS_DEFAULT_REGION, credentials, and AWS_ENDPOINT_URL
for a store of your own): ``BUCKET=reports python examples/guard_s3.py``.
"""

from __future__ import annotations

import logging
import os
import time

import fencelock
from fencelock.guards.s3 import S3Guard

KEY = "example/report.txt"


def main(bucket: str) -> None:
    import boto3

    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    guard = S3Guard(boto3.client("s3"), bucket)
    guard.probe("example/probe")  # complains about a store that ignores conditions
    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock("report", ttl=0.2, renew=False).acquire()
        seen = guard.enter(KEY, first) or b""  # raises the mark, and reads
        print(f"the first holder reads {len(seen)} bytes, and freezes")
        time.sleep(0.3)

        with client.lock("report", timeout=5) as second:
            report = guard.enter(KEY, second) or b""
            guard.put(KEY, report + b"a line of the second holder\n", second)
            print("the second holder adds a line")

        try:
            # It wakes up and writes. The lease itself would say that it is over.
            guard.put(KEY, seen + b"a line of the first holder\n", first.fence, name=first.name)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")
    print("others read it behind its first line:", guard.read(KEY))


if __name__ == "__main__":
    if "BUCKET" in os.environ:
        main(os.environ["BUCKET"])
    else:
        print("set BUCKET to the name of a bucket")
