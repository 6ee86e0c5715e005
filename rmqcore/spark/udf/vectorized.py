"""Makes UDFs of functions of Arrow arrays, for the PySpark that is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmqcore.spark.runtime.shipping import sent_function

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

Kernel = Callable[..., Any]
"""A function from Arrow arrays of equal length to another array of that length."""
Udf = Callable[..., "Column"]


def vectorized(kernel: Kernel, return_type: DataType | str) -> Udf:
    """Make an UDF that calls `kernel` for each batch: an arrow_udf where PySpark has them (4.1 and later), else a pandas_udf.

    Parameters
    ----------
    kernel : callable
        Without annotations, from which Spark would infer another kind of UDF.
    return_type : DataType or str
        Type of the result, as Spark's class or in the words of its SQL.
    """
    from pyspark.sql.pandas import functions

    known: Any = functions  # its overloads are for functions of one to ten arguments
    made: Udf
    if hasattr(known, "arrow_udf"):
        made = known.arrow_udf(sent_function(kernel), return_type)
    else:
        made = known.pandas_udf(sent_function(over_series(kernel)), return_type)
    return made


def over_series(kernel: Kernel) -> Kernel:
    """Make a function of pandas Series that calls a kernel of Arrow arrays; a struct becomes a DataFrame, as pandas UDFs do."""

    def call(*columns: pd.Series[Any], **named: pd.Series[Any]) -> pd.Series[Any] | pd.DataFrame:
        import pyarrow as pa

        arrays = [pa.Array.from_pandas(column) for column in columns]
        by_name = {name: pa.Array.from_pandas(column) for name, column in named.items()}
        result = kernel(*arrays, **by_name)
        if pa.types.is_struct(result.type):
            # `flatten` and not `field`: the fields of a null struct must be null.
            # Below, ints stay ints although they have nulls: a float cannot hold every phy_offset.
            names = [field.name for field in result.type]
            result = pa.RecordBatch.from_arrays(result.flatten(), names)
        return result.to_pandas(integer_object_nulls=True, maps_as_pydicts="lossy")

    call.__annotations__ = {}
    call.__name__ = kernel.__name__
    return call
