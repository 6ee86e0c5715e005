"""Locks and bells that no interrupt can leave half-way: their steps are single native calls.

Imports nothing of the package.
"""
