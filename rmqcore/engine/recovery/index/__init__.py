"""The files in ``index/`` compared with the log when a store is opened: signs of damage, the comparison, and the healing.

Imports `engine.index`, `engine.log` and, of recovery, what says how far to look.
"""
