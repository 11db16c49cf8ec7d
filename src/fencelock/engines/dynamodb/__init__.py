"""Locks in a table of Amazon DynamoDB, with the item layout of AWS's lock client for Java."""
