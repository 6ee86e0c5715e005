"""Long reports as tables for a terminal and as pictures, a module or two for each verb that has one.

Imports `common` and the reports themselves.
"""
