"""Typed input beyond options: patterns, templates, topic names, and no arguments at all.

Imports `reports`, `common`, and `rmqcore.cli.names`.
"""
