"""A store of another kind as one of plain files, beside the original.

Imports `backup` (how files get into a copy), `salvage` (the parts that are copied as they are), `rebuild` and what they import.
"""
