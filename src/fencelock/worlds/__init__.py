"""The real worlds that protocol code runs in: threads and asyncio."""
