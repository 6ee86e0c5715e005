"""The store of a verb: opened for reading, also behind a URL, and the settings from its files and configuration.

Imports `cli.common` and what that imports.
"""
