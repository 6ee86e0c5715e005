"""What people are shown of stored things: text that a screen may get, bodies as text, tables for a notebook.

`report.py` is the base of all reports. Imports `rmqcore.codec`, `rmqcore.vocabulary` and `rmqcore.errors`.
"""
