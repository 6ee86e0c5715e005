"""Messages as lines of text: JSON and CSV.

Imports `_native.format`.
"""
