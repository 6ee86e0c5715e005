"""The one place that opens, makes, renames and deletes below a directory that the caller named.

What lies there may have been made by somebody who means harm. A path that the caller gives may go through links: that is the
caller's choice. A name that comes from the disk, or that every store has, is never followed when it is a link: `links` says so in
one error, `files` opens and deletes by a path whose last name is no link, `folder` goes from an open directory, name by name.
Nothing but regular files and directories is opened. `clones` lets files share blocks, `apart` holds a store and its copy apart.
Imports `disk.file_kinds`, `disk.paths` and the vocabulary.
"""
