"""What people type that is more than an option: patterns, templates, names of topics, and nothing at all.

Imports `reports`, `common`, and `rmqcore.cli.names`.
"""
