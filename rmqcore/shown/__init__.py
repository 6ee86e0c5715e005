"""What people are shown of stored things: text that a screen may get, bodies as text, tables for a notebook.

Imports only the vocabulary (``message``, ``compression``, ``errors``, ``sysflag``).
"""
