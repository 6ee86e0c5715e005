"""Shared by several verbs: arguments, formats, tables, progress, errors and exit codes.

It imports no other room of the command line.
"""
