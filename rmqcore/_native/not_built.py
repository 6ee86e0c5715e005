"""Text of the ImportError for missing extensions; loaded only then."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def why_not_loaded(error: ImportError) -> str:
    """Return a message that names the missing extension, the Python, what the folder holds instead, and what to do."""
    folder = Path(__file__).parent
    root = folder.parent.parent
    python = f"{sys.implementation.name} {sys.version.split()[0]} ({sys.executable})"
    codec = folder / "format"
    wanted = codec / f"codec{EXTENSION_SUFFIXES[0]}"
    present = sorted(path.name for path in codec.glob("codec.*") if path.suffix in {".so", ".pyd"})
    if (root / "setup.py").exists() and (root / "src" / "rmqcore" / "_native").is_dir():
        remedy = (
            f"This is a source checkout; build the extensions with\n\n    cd {root} && "
            f"{sys.executable} -m pip install --editable .\n\nor, if rmqcore is installed "
            "elsewhere, start Python outside of this checkout"
        )
    else:
        remedy = f"Install rmqcore again for this Python: {sys.executable} -m pip install --force-reinstall rmqcore"
    if any(codec.joinpath(f"codec{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        state = "exists but cannot be loaded"
    elif present:
        state = f"does not exist, only {', '.join(present)}: rmqcore was built for another Python"
    else:
        state = "does not exist: rmqcore was not built"
    return f"rmqcore's extensions cannot be imported by {python}: {wanted} {state} ({error}). {remedy}."
