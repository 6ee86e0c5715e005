# Functions of other extensions alone.
