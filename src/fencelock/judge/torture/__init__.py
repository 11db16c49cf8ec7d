"""The torture: real client processes at work on one engine, real faults, and the judge's verdict.

``runner.py`` conducts one run, ``worker.py`` is one client process of it, and ``report.py``
reports the result. ``fencelock torture`` is its command line.
"""
