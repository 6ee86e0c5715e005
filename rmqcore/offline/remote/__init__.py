"""Stores on other filesystems (S3, HDFS, ...): URLs, directory listings, and files in the form that local code needs.

Imports `disk` and the vocabulary, and no other room of `offline`; pyarrow and fsspec are imported with the first URL.
"""
