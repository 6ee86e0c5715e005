"""The computations of the UDFs, from Arrow arrays to an Arrow array: without Spark, and without a loop if a kernel exists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rmqcore import codec
from rmqcore._native.scan.value_columns import MAX_PROPERTIES_LEN, Values
from rmqcore.codec import compression
from rmqcore.errors import CompressionError, CompressionLibraryError
from rmqcore.spark.runtime.workers import freeze_worker_heap
from rmqcore.vocabulary import sysflag

Mode = Literal["PERMISSIVE", "FAILFAST"]
MAP = pa.map_(pa.string(), pa.string())


def check_mode(mode: str) -> Mode:
    """Return the mode in upper case.

    Raises
    ------
    ValueError
        The mode is neither PERMISSIVE nor FAILFAST.
    """
    for known in get_args(Mode):
        if mode.upper() == known:
            return known  # type: ignore[no-any-return] # an element of the Literal
    raise ValueError(f"mode {mode!r} is neither PERMISSIVE nor FAILFAST")


def narrow(array: pa.Array) -> pa.Array:
    """Return the array as binary or string with 32-bit offsets; an array of this type is returned unchanged.

    Raises
    ------
    TypeError
        The array holds neither bytes nor text.
    """
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return array
    text = pa.types.is_large_string(kind) or getattr(pa.types, "is_string_view", bool)(kind)
    try:
        return array.cast(pa.string() if text else pa.binary())
    except pa.ArrowNotImplementedError:
        raise TypeError(f"expected a binary or string column, got {kind}") from None


def kernels(array: pa.Array) -> Values:
    """Return the native kernels over an array from `narrow`."""
    if "pyspark" in sys.modules:
        freeze_worker_heap()
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:  # Arrow allows a column of no rows to have no offsets
        return Values(bytes(4), None, 0, 0)
    return Values(offsets, data, array.offset, len(array))


def nulls(array: pa.Array) -> NDArray[np.bool_] | None:
    """Return a mask that is true at each null; None without nulls."""
    if array.null_count == 0:
        return None
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _numbers(array: pa.Array, kernel: Callable[[Values, memoryview], None]) -> pa.Array:
    array = narrow(array)
    out = np.empty(len(array), np.int32)
    kernel(kernels(array), out.data)
    return pa.array(out, mask=nulls(array))


def body_crc(array: pa.Array) -> pa.Array:
    """BODYCRC of each body: CRC-32 & 0x7FFFFFFF, as `rmqcore.codec.body_crc`."""
    return _numbers(array, Values.body_crcs)


def java_hash(array: pa.Array) -> pa.Array:
    """Java's ``String.hashCode`` of each text, as `rmqcore.codec.java_hash`."""
    return _numbers(array, Values.java_hashes)


def tags_code(array: pa.Array) -> pa.Array:
    """The tags code of a ConsumeQueue entry: the hash of the tags, 0 for null and for the empty text.

    Source: RocketMQ 5.5.0 MessageExtBrokerInner#tagsString2tagsCode.
    """
    return pc.fill_null(java_hash(array).cast(pa.int64()), 0)


def decode_properties(array: pa.Array) -> pa.Array:
    """The map of each properties string, as `rmqcore.codec.decode_properties`."""
    array = narrow(array)
    parts = list(_property_parts(array))
    maps = pa.concat_arrays(parts) if len(parts) != 1 else parts[0]
    mask = nulls(array)
    if mask is None:
        return maps
    # A null at offset i makes row i null. The last offset only closes the last row.
    offsets = pa.array(maps.offsets.to_numpy(), mask=np.append(mask, False))
    return pa.MapArray.from_arrays(offsets, maps.keys, maps.items)


def _property_parts(array: pa.Array) -> Iterator[pa.Array]:
    """Yield maps, batch by batch: by the kernel for strings that fit a record, by the codec for longer ones."""
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    start = 0
    for row in [*np.flatnonzero(lengths > MAX_PROPERTIES_LEN).tolist(), len(array)]:
        batch = kernels(array.slice(start, row - start)).properties()
        yield pa.record_batch(batch).column(0).cast(MAP)
        if row < len(array):
            pairs = codec.decode_properties(array[row].as_buffer())
            yield pa.array([list(pairs.items())], MAP)
        start = row + 1


def decompress_body(bodies: pa.Array, sys_flags: pa.Array, mode: pa.Array = None) -> pa.Array:
    """The plain body of each row, as `rmqcore.codec.compression.decompress_body`.

    A null body or flag gives null. In mode PERMISSIVE a body that cannot be decompressed gives null too.

    Raises
    ------
    CompressionError
        A body cannot be decompressed in mode FAILFAST, or the library that it needs is missing.
    """
    chosen = any_mode(mode)
    bodies = narrow(bodies)
    flags = sys_flags.cast(pa.int32())
    if flags.null_count:
        bodies = pc.if_else(flags.is_valid(), bodies, pa.scalar(None, bodies.type))
    marked = pc.not_equal(pc.bit_wise_and(flags, pa.scalar(sysflag.COMPRESSED, pa.int32())), 0)
    packed = pc.and_(bodies.is_valid(), pc.fill_null(marked, False))
    rows = np.flatnonzero(packed.to_numpy(zero_copy_only=False)).tolist()
    if not rows:
        return bodies
    plain = pa.array(
        [_plain(row, bodies[row].as_py(), flags[row].as_py(), chosen) for row in rows],
        bodies.type,
    )
    if isinstance(plain, pa.ChunkedArray):
        raise CompressionError(
            f"the decompressed bodies of {len(bodies)} rows exceed the 2 GiB of one Arrow column: "
            "lower spark.sql.execution.arrow.maxRecordsPerBatch"
        )
    return pc.replace_with_mask(bodies, packed, plain)


def _plain(row: int, body: bytes, sys_flag: int, mode: Mode) -> bytes | None:
    try:
        return compression.decompress_body(body, sys_flag)
    except CompressionError as error:
        # Raised in every mode: with a missing library every body of this kind would become null, though the data is
        # sound.
        if mode == "FAILFAST" or isinstance(error, CompressionLibraryError):
            raise type(error)(f"row {row} of the batch: {error}") from error
        return None


def any_mode(mode: Any) -> Mode:
    """The mode from an UDF's optional argument, which is absent, a text, or a column that holds one text in all rows."""
    if mode is None:
        return "PERMISSIVE"
    if isinstance(mode, str):
        return check_mode(mode)
    given = pc.unique(mode).to_pylist()
    if not given:
        return "PERMISSIVE"  # no rows
    if len(given) > 1 or given[0] is None:
        raise ValueError(f"mode must be one text for all rows, got {given}")
    return check_mode(given[0])
