"""A consistent copy of a store that may be in use, made again and again into one directory (docs/backup.md).

``backup`` is the way in. `places` holds store and copy apart, `store_copy` says what is copied in which order, with `log` and
`tree` for the parts and `copier` for the ways in which a file gets there; `settle` lets the engine finish the copy, `manifest`
says when it is whole.
"""
