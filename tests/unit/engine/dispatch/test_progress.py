"""The offsets of a dispatcher: forward for queues and index, and back for a queue that lost files."""

from __future__ import annotations

from rmqcore.engine.dispatch.progress import Progress

STARTS = range(0, 1000, 100)
"""Where the files of the log begin."""


def at(cq_from: int, index_from: int, *, first: int = 0) -> Progress:
    progress = Progress(indexes=True)
    progress.done.cq_from, progress.done.index_from = cq_from, index_from
    progress.begin(first)
    return progress


def test_the_log_is_read_where_the_later_of_the_two_is() -> None:
    progress = at(500, 300)
    assert (progress.read_from, progress.queues_from, progress.dispatched_to) == (300, 500, 300)
    progress.advance(400)
    assert (progress.read_from, progress.queues_from, progress.dispatched_to) == (400, 500, 400)
    assert not progress.is_level
    progress.advance(500)
    assert progress.is_level
    without_index = Progress(indexes=False)
    without_index.done.cq_from = 500
    assert (without_index.read_from, without_index.dispatched_to) == (500, 500)


def test_a_start_in_the_middle_of_the_log_covers_nothing_before_it() -> None:
    assert at(500, 500).covered_from == 500
    assert at(500, 500, first=500).covered_from == -1, "there is nothing before the first file"


def test_the_queues_go_back_to_a_file_start_and_catch_up() -> None:
    progress = at(950, 950)
    progress.go_back(730, STARTS)
    assert (progress.queues_from, progress.covered_from, progress.read_from) == (700, 700, 700)
    assert progress.dispatched_to == 950, "the queues have all of it, but for one that lost files"
    progress.advance(800)
    assert (progress.queues_from, progress.covered_from) == (800, 700)
    progress.advance(960)
    assert (progress.queues_from, progress.done.cq_from, progress.covered_from) == (960, 960, 700)
    assert progress.is_level


def test_each_time_they_go_back_twice_as_far() -> None:
    progress = at(950, 950)
    progress.go_back(890, STARTS)
    assert progress.queues_from == 800
    progress.go_back(790, STARTS)
    assert progress.queues_from == 500, "300 bytes, not 100"
    progress.go_back(450, STARTS)
    assert (progress.queues_from, progress.covered_from) == (0, -1), "to the start of the log"


def test_a_place_that_was_set_begins_anew() -> None:
    progress = at(950, 950)
    progress.go_back(730, STARTS)
    progress.advance(960)
    progress.done.cq_from = progress.done.index_from = 300
    progress.begin(0)
    assert progress.covered_from == 300
    progress.done.cq_from = 400
    progress.note_covered()
    progress.begin(0)
    assert progress.covered_from == 300, "a session went on in order"
