"""Fencelock beside other packages, each a module of its own that is imported by its name.

``prometheus`` gives metrics to ``prometheus_client``, ``opentelemetry`` makes spans.
"""
