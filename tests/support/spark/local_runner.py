"""Runs the tasks of a rebuild without Spark, as unkindly as Spark may: any order, attempts that die, attempts that run twice."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from rmqcore.spark.rebuild.queue_pieces import Piece, batches_of, pieces_of
from rmqcore.spark.rebuild.runner import Mapper, Reducer

Work = TypeVar("Work")
Result = TypeVar("Result")


class LocalRunner:
    """A `Runner`. Everything goes through pickle, as it would to a worker; pieces go through Arrow where it is there."""

    def __init__(self, seed: int = 0, reduce_tasks: int = 3) -> None:
        self.random = random.Random(seed)
        self.reduce_tasks = reduce_tasks
        self.calls = 0

    def __repr__(self) -> str:
        return f"LocalRunner with {self.reduce_tasks} reduce tasks"

    def tasks(self, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
        results: dict[int, Result] = {}
        for number in self._shuffled(range(len(work))):
            for _ in range(self.random.choice([1, 1, 2])):  # the last attempt counts
                self.calls += 1
                answer = _carried(function)(_carried(work[number]))
                results[number] = _carried(answer)
        return [results[number] for number in range(len(work))]

    def shuffle(
        self, mapper: Mapper[Work], work: Sequence[Work], reducer: Reducer, keys: Sequence[str]
    ) -> list[Any]:
        partitions: dict[int, list[Piece]] = defaultdict(list)
        for number in self._shuffled(range(len(work))):
            for piece in self._map(mapper, number, work[number]):
                key = tuple(getattr(piece, name) for name in keys)
                partitions[hash(key) % self.reduce_tasks].append(piece)
        results: list[Any] = []
        for pieces in partitions.values():
            self.random.shuffle(pieces)
            pieces.sort(key=lambda piece: _sort_key(piece, keys))
            results += self._reduce(reducer, pieces)
        return results

    def _map(self, mapper: Mapper[Work], number: int, item: Work) -> list[Piece]:
        while True:
            self.calls += 1
            pieces = _carried(mapper).pieces(number, _carried(item))
            if self.random.random() < 0.2:
                list(islice(pieces, 1))  # the worker dies in the middle
                continue
            return list(pieces_of(batches_of(pieces)))

    def _reduce(self, reducer: Reducer, pieces: list[Piece]) -> list[Any]:
        for _ in range(self.random.choice([0, 0, 1, 2])):
            list(islice(_carried(reducer).results(iter(pieces)), self.random.randrange(4)))
        attempts = [
            _all(_carried(reducer).results(iter(pieces))) for _ in range(self.random.choice([1, 2]))
        ]
        return self.random.choice(attempts)  # speculation: either may have been first

    def _shuffled(self, numbers: Iterable[int]) -> list[int]:
        order = list(numbers)
        self.random.shuffle(order)
        return order


def _sort_key(piece: Piece, keys: Sequence[str]) -> tuple[object, ...]:
    fields = [(value is not None, value) for value in (getattr(piece, name) for name in keys)]
    return (piece.topic is not None, *fields, piece.sequence)


def _carried(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _all(results: Iterator[Any]) -> list[Any]:
    return [_carried(result) for result in results]
