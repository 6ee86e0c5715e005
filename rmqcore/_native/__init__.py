"""Compiled kernels. Their names are private; what they do is public through the modules above."""
