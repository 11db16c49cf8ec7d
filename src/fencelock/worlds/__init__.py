"""The worlds that protocol code runs in: threads, asyncio, and a simulated one."""
