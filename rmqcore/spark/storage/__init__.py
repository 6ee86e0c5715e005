"""Where stores are and how their files are opened: paths, globs, local and remote file systems.

Imports `disk`, `offline` and `errors`, and no other room of `spark`.
"""
