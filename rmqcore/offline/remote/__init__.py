"""Stores on other filesystems (S3, HDFS, ...): how a URL leads to one, what lies there, and its files as local code needs them.

pyarrow and fsspec are imported when a URL is met. Imports `disk` and the vocabulary, and no other room of `offline`.
"""
