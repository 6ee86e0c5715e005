"""ConsumeQueues on disk: their files, their bounds, and what a get of them would answer.

Imports `offline.log` and what it imports, and `queries`.
"""
