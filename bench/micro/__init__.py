"""Short calls by pytest-benchmark: what `make bench-compare REV=main` sets beside another commit.

They use the public interface alone, so that the same files run on the package of an older commit.
"""
