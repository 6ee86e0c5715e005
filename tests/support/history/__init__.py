"""A served broker under faults: what its clients saw, and what of it must not be.

`record` keeps the history, `checker` judges it, `clients` and `other_clients` make it, `faults` disturbs.
"""
