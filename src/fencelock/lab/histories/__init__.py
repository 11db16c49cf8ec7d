"""Traces of a history: of a torture of real processes, or of a simulated run.

A history is too long for one picture. It is cut into parts, each of them a trace like that of a
play: one lock, a stretch of time, and the clients that took part in it. Violations come first; the
number of parts, their lanes and their size are bounded, and each part says what is left out.
"""

from __future__ import annotations

from .report import Report
from .traces import BYTES_MAX, PARTS_MAX, Part, page_of, parts
from .windows import CLIENTS_MAX

__all__ = ["BYTES_MAX", "CLIENTS_MAX", "PARTS_MAX", "Part", "Report", "page_of", "parts"]
