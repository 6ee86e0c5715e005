"""What will be deleted when, and why: the engine's own rules of cleaning, asked for the days to come.

It reads as `rmqcore.offline` does and asks `rmqcore.engine.clean` for its rules; nothing is written.
"""
