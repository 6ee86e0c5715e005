"""From the CommitLog to ConsumeQueues and index: what is new is scanned once and handed to both.

Imports `engine.log`, `engine.queues` and `engine.index`, and what they import.
"""
