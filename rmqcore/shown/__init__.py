"""Displays stored data safely: text for screens, bodies as text, tables for a notebook.

Imports only the vocabulary (``message``, ``compression``, ``errors``, ``sysflag``).
"""
