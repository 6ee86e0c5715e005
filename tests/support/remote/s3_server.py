"""A real S3 server on a free port of this machine: moto, as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUCKET = "stores"
MAIN = "from moto.server import main; main()"
STORAGE = {
    "scheme": "http",
    "access_key": "the-access-key",
    "secret_key": "the-secret-key",
    "region": "us-east-1",
}


@dataclass(frozen=True)
class S3Server:
    """Where it listens.

    Attributes
    ----------
    endpoint : str
        Host and port.
    storage : dict of str to str
        The options ``storage.*`` to reach it, without that prefix.
    """

    endpoint: str
    storage: dict[str, str]

    def filesystem(self) -> Any:
        """A filesystem of pyarrow that may write."""
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(**self.storage, allow_bucket_creation=True, background_writes=False)

    def put(self, root: Path, prefix: str) -> str:
        """Upload all files under a directory; answer the URI."""
        filesystem = self.filesystem()
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self.put_bytes(f"{prefix}/{path.relative_to(root)}", path.read_bytes(), filesystem)
        return f"s3://{BUCKET}/{prefix}"

    def put_bytes(self, key: str, data: bytes, filesystem: Any = None) -> None:
        """Write one object, or replace it."""
        with (filesystem or self.filesystem()).open_output_stream(f"{BUCKET}/{key}") as out:
            out.write(data)

    def delete(self, key: str) -> None:
        """Delete one object."""
        self.filesystem().delete_file(f"{BUCKET}/{key}")

    @contextmanager
    def refusing_keys(self) -> Iterator[None]:
        """From the next request on nobody's access key is known."""
        self._set_requests_without_check("0")
        try:
            yield
        finally:
            self._set_requests_without_check("inf")

    def _set_requests_without_check(self, count: str) -> None:
        request = urllib.request.Request(
            f"http://{self.endpoint}/moto-api/reset-auth",
            data=count.encode(),
            headers={"Content-Type": "text/plain"},
        )
        with urllib.request.urlopen(request) as answer:
            answer.read()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start the server, on a port that it chooses, with an empty bucket."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", MAIN, "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                    break
            else:
                raise RuntimeError(f"the S3 server did not start: {''.join(said)}")
            # It notes every request there, and would stop once the pipe is full.
            reader = threading.Thread(target=deque, args=(process.stderr, 0))
            reader.start()
            server = S3Server(found[1], STORAGE | {"endpoint_override": found[1]})
            server.filesystem().create_dir(BUCKET)
            yield server
        finally:
            process.terminate()
        reader.join()
