"""What an open does with the files that it finds: a plan that only reads, then the steps that carry it out, then a report.

Imports `engine.dispatch`, `engine.log`, `engine.queues` and `engine.index`, and what they import.
"""
