"""Engines that break one promise each, to see that the judge notices.

Each is the memory engine with one defect, of a kind that was found in real lock libraries.
"""
