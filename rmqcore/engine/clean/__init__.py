"""Files that are deleted because their time is over, or because the disk is full.

Imports `log`, `queues`, `index` and what is below the engine.
"""
