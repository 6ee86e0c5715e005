"""The store that a verb is given: opened for reading, behind a URL too, and what its files and its configuration say.

Imports `cli.common` and what that imports.
"""
