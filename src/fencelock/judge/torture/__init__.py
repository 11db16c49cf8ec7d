"""The torture: real client processes at work on one engine, real faults, and the judge's verdict.

``runner.py`` conducts one run, ``worker.py`` is one client process of it, ``report.py`` and
``page.py`` tell what came of it. ``fencelock torture`` is its command line.
"""
