"""Functions of Arrow arrays as UDFs of whichever PySpark is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

Kernel = Callable[..., Any]
"""Arrow arrays of equal length to one more."""
Udf = Callable[..., "Column"]


def vectorized(kernel: Kernel, return_type: DataType | str) -> Udf:
    """Make an UDF that calls `kernel` for each batch, an arrow_udf where there are any (PySpark 4.1), else a pandas_udf.

    Parameters
    ----------
    kernel : callable
        Without annotations, from which Spark would guess another kind of UDF.
    return_type : DataType or str
        Spark's, or in the words of its SQL.
    """
    from pyspark.sql.pandas import functions

    known: Any = functions  # its overloads are for functions of one to ten arguments
    made: Udf
    if hasattr(known, "arrow_udf"):
        made = known.arrow_udf(kernel, return_type)
    else:
        made = known.pandas_udf(over_series(kernel), return_type)
    return made


def over_series(kernel: Kernel) -> Kernel:
    """The kernel with pandas in place of Arrow around it; a struct becomes a DataFrame, as a pandas UDF wants it."""

    def call(*columns: pd.Series[Any], **named: pd.Series[Any]) -> pd.Series[Any] | pd.DataFrame:
        import pyarrow as pa

        arrays = [pa.Array.from_pandas(column) for column in columns]
        by_name = {name: pa.Array.from_pandas(column) for name, column in named.items()}
        result = kernel(*arrays, **by_name)
        if pa.types.is_struct(result.type):
            # flatten, not field: a null struct has null fields. Ints stay ints: a float has no room for every phy_offset.
            names = [field.name for field in result.type]
            result = pa.RecordBatch.from_arrays(result.flatten(), names)
        return result.to_pandas(integer_object_nulls=True, maps_as_pydicts="lossy")

    call.__annotations__ = {}
    call.__name__ = kernel.__name__
    return call
