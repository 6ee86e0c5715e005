"""Messages as Parquet, Arrow, CSV or JSON files, by topic and day.

It imports `offline.reader` and what that imports, and pyarrow when it is used.
"""

from rmqcore.offline.export.export import ExportFormat, ExportReport, export

__all__ = ["ExportFormat", "ExportReport", "export"]
