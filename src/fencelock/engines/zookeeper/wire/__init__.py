"""ZooKeeper's client protocol: messages, session and connection, for threads and for asyncio."""
