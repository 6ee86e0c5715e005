"""Predicts when files will be deleted: applies the engine's cleaning rules to the days to come.

It reads like `rmqcore.offline`, uses the rules of `rmqcore.engine.clean`, and writes no file.
"""
