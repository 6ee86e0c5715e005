"""Libraries that frames and filesystems of URLs need, and the core does not."""

from __future__ import annotations

from importlib.util import find_spec


def check_installed(package: str, wanted_by: str, command: str) -> None:
    """Check that a library is there, without importing it.

    Parameters
    ----------
    package : str
    wanted_by : str
        The function that a user called, or the scheme of a URL.
    command : str
        What installs it.

    Raises
    ------
    ModuleNotFoundError
        It is not; the message says what installs it.
    """
    if find_spec(package) is None:
        raise ModuleNotFoundError(
            f"{wanted_by} needs {package}, which is not installed: {command}", name=package
        )
