"""Recovery during an open: a plan that only reads, the steps that carry it out, and a report.

Imports `engine.dispatch`, `engine.log`, `engine.queues` and `engine.index`, and what they import.
"""
