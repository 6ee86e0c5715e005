"""Predicts which files will be deleted when: the engine's cleaning rules applied to the days to come.

It reads as `rmqcore.offline` does and asks `rmqcore.engine.clean` for its rules; nothing is written.
"""
