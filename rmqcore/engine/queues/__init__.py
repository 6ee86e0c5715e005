"""The ConsumeQueues of an open store, and what recovery and cleaning do to them.

Imports of the engine nothing: `disk`, the vocabulary and `_native`.
"""
