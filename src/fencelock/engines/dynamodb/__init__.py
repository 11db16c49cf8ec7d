"""Locks in a table of Amazon DynamoDB, in the layout of AWS's own lock client.

``engine.py`` is the recipe and ``observations.py`` judges who is dead. ``records.py`` knows how an
item looks and which conditions are put to DynamoDB, ``table.py`` makes the table, ``memos.py`` is
what is remembered for names. ``wire/`` calls botocore under threads and aiobotocore in asyncio.
"""
