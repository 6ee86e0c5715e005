"""Messages as Parquet, Arrow, CSV or JSON files, by topic and day.

Imports `offline.reader` and what that imports, and pyarrow on first use.
"""

from rmqcore.offline.export.export import ExportFormat, ExportReport, export

__all__ = ["ExportFormat", "ExportReport", "export"]
