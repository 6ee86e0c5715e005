"""Reading of any store directory, also one that is in use or broken: nothing is written, locked or mapped."""
