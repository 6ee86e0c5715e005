"""The kernels for extensions of other projects, in C and Cython: the folder of the headers, and the table of functions.

docs/c_api.md describes them. ``from rmqcore.c_api cimport ...`` finds the declarations in ``__init__.pxd``. This package imports
`rmqcore._native` alone.
"""

from __future__ import annotations

from pathlib import Path

from rmqcore._native.format.c_api import TABLE

__all__ = ["get_include"]

_C_API = TABLE  # rmqcore_import() in c_api.h looks for this name


def get_include() -> str:
    """Return the folder with ``rmqcore/c_api.h``, for the ``include_dirs`` of an extension.

    Returns
    -------
    str
        ``include`` of the installed package; ``src`` of a checkout, also if the checkout is installed as editable.
    """
    package = Path(__file__).resolve().parents[1]
    shipped = package / "include"
    return str(shipped if shipped.is_dir() else package.parent / "src")
