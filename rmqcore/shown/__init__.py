"""Displays stored data safely: text for screens, bodies as text, tables for a notebook.

`report.py` is the base of all reports. Imports `rmqcore.codec`, `rmqcore.vocabulary` and `rmqcore.errors`.
"""
