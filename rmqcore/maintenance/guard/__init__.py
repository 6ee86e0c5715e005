"""Keeps repairs from losing data: each compares what it would remove with what it would write.

Imports offline, disk and what lies below them; the other rooms of maintenance, Spark and the command line import it.
"""
