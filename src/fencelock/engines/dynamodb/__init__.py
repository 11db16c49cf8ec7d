"""Locks in a table of Amazon DynamoDB, in the layout of the lock client that AWS has for Java."""
