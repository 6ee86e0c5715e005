"""Records, queue entries, checkpoints and the layout of all files: bytes into values and back.

Imports of the extensions nothing; `rmqcore.errors`, and `rmqcore.codec.compression` inside a call.
"""
