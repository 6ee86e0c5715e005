"""The files in ``index/`` compared with the log at an open: signs of damage, the comparison, and the healing.

Imports `engine.index`, `engine.log` and recovery's `thoroughness`.
"""
