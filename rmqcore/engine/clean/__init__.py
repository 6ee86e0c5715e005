"""Cleaning: deletes files that have expired, or the oldest files while the disk is full.

Imports `log`, `queues`, `index` and what is below the engine.
"""
