"""A signal handler at any bytecode, line or border between Python and C: one that raises, and one that closes the store.

After it the store goes on, or is closed, and nothing is lost. Before these tests a Ctrl-C in a put left a file that no later put
could make (EEXIST, then StoreFailedError), or a put that never ended; one in a dispatch put index entries twice; a lock that was
taken stayed taken. A handler that closed the store waited for a lock of the very call that it had interrupted.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.doses import dose
from support.faults.interrupt_points import Injector
from support.faults.interrupt_scenes import SCENES, play, play_closing

# How many places of each scene, from a start that the seed chooses; 0: all of them, some 100,000.
POINTS = dose("RMQCORE_INTERRUPT_POINTS", test=1, verify=4, night=0)
MEMORY = "/dev/shm"
# An interrupt drops what a frame has open, and Python closes it then with a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
OPENED = [name for name, scene in SCENES.items() if scene.opens]


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: the places are many, and each costs some syncs."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.mark.smoke
@pytest.mark.parametrize("name", SCENES)
def test_an_exception_at_any_place(quick_path: Path, rng: random.Random, name: str) -> None:
    at_places(quick_path, rng, partial(play, SCENES[name]))


@pytest.mark.parametrize("leave", [False, True], ids=["goes on", "leaves"])
@pytest.mark.parametrize("name", OPENED)
def test_a_close_at_any_place(quick_path: Path, rng: random.Random, name: str, leave: bool) -> None:
    at_places(quick_path, rng, partial(play_closing, SCENES[name], leave=leave))


def at_places(folder: Path, rng: random.Random, play_at: Callable[[Path, int], Injector]) -> None:
    """Play at many places of a scene."""
    events = play_at(folder / "counted", 0).events
    assert events > 50
    step = max(1, events // POINTS) if POINTS else 1
    for at in range(1 + rng.randrange(step), events + 1, step):
        root = folder / str(at)
        try:
            play_at(root, at)
        except BaseException as error:
            error.add_note(f"event {at}")
            raise
        shutil.rmtree(root)
