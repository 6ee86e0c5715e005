"""Disks for proofs: images from recorded events, small mounted file systems, and facts about a disk.

Imports only the plain modules of `rmqcore.testing`.
"""
