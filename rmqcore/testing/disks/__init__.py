"""Disks for proofs: images made of recorded events, small file systems that are mounted, and what a disk says of itself.

Imports nothing of `rmqcore.testing` but its plain modules.
"""
