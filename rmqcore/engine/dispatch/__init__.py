"""Dispatch from the CommitLog to ConsumeQueues and index: new records are scanned once, for both.

Imports `engine.log`, `engine.queues` and `engine.index`, and what they import.
"""
