"""The process of `rmqcore.testing.ServedBroker`: ``rmqcore serve``, which ends with its parent process.

Run as a file, with Python's ``-P``: its imports are Python's, even if the application has modules of the same names.
"""

from __future__ import annotations

import os
import runpy
import select
import shutil
import signal
import sys
import threading
import time
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

LOOK_SECONDS = 1.0
END_SECONDS = 30.0
"""How long a broker without a parent may take to end by itself."""
KEEP = "-"


def main(folder: str, paths: list[str], temporary: str, arguments: list[str]) -> None:
    """Run the command line.

    Parameters
    ----------
    folder : str
        The folder that has the package rmqcore.
    paths : list of str
        Folders whose packages rmqcore may need. They come last, so that no module in them replaces one of Python's or
        an installed one.
    temporary : str
        A folder to delete when the parent is gone; `KEEP` to delete none.
    arguments : list of str
        The arguments of ``rmqcore``.
    """
    orphaned = threading.Event()
    watcher = threading.Thread(target=_watch, args=(os.getppid(), orphaned), daemon=True)
    watcher.start()
    sys.path += [folder, *filter(None, paths)]
    spec = PathFinder.find_spec("rmqcore", [folder])
    if spec is None or spec.loader is None:
        sys.exit(f"{folder} has no package rmqcore")
    package = sys.modules["rmqcore"] = module_from_spec(spec)
    spec.loader.exec_module(package)
    sys.argv = ["rmqcore", *arguments]
    try:
        runpy.run_module("rmqcore", run_name="__main__", alter_sys=True)
    finally:
        if orphaned.is_set() and temporary != KEEP:
            shutil.rmtree(temporary, ignore_errors=True)


def _watch(parent: int, orphaned: threading.Event) -> None:
    """Wait for the end of stdin, a pipe of the parent. A child of the parent may hold it too, so check the parent."""
    while os.getppid() == parent:
        if select.select([0], [], [], LOOK_SECONDS)[0] and not os.read(0, 1):
            break
    orphaned.set()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(os.pathsep), sys.argv[3], sys.argv[4:])
