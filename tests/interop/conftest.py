"""One JVM for all tests of a process, and stores that it opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pytest
from interop.java_process import JavaProcess
from interop.java_store import JavaStore


class OpenJava(Protocol):
    """Opens a directory with RocketMQ; closed after the test at the latest."""

    def __call__(
        self,
        path: Path,
        config: Mapping[str, Any],
        *,
        load_only: bool = False,
        attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> JavaStore: ...


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProcess]:
    """The JVM that the tests share."""
    with JavaProcess(tmp_path_factory.mktemp("java")) as process:
        yield process


@pytest.fixture
def java_open(java: JavaProcess) -> Iterator[OpenJava]:
    """Opens stores in the shared JVM."""
    opened: list[JavaStore] = []

    def open_store(path: Path, config: Mapping[str, Any], **how: Any) -> JavaStore:
        opened.append(JavaStore(java, path, config, **how))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()
