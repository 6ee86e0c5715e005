"""Mapped files, and views of the records that lie in the mapped log.

Imports `_native.format`; `rmqcore.errors`.
"""
