"""The only place that opens, makes, renames and deletes below a directory that the caller named.

An attacker may have made the files there. A path from the caller may lead through links: that is the caller's choice. A
name read from the disk, or one that every store has, is never followed if it is a link: `links` makes the error,
`files` opens and deletes by a path whose last name is not a link, `folder` walks from an open directory, name by name.
Only regular files and directories are opened. `clones` lets files share blocks, `apart` keeps a store and its copy
apart. Imports `disk.file_kinds`, `disk.paths` and the vocabulary.
"""
