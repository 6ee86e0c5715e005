"""Arrow UDFs over binary and text columns: ``rmqcore.spark.udf.decode_message(...)`` and others.

Imports `spark.reading` and the rooms below it, `codec`, `compression` and `_native`; imports PySpark when a function is called.
"""

from rmqcore.spark.udf.functions import (
    body_crc,
    decode_message,
    decode_properties,
    decompress_body,
    java_hash,
    register,
    tags_code,
)

__all__ = [
    "body_crc",
    "decode_message",
    "decode_properties",
    "decompress_body",
    "java_hash",
    "register",
    "tags_code",
]
