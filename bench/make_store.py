"""Makes a store of any size as a broker leaves it after a clean exit: ``python -m bench.make_store DIR --mib 1024``.

CommitLog, ConsumeQueues, IndexFiles and checkpoint in RocketMQ's default layout: 250 topics of 4
queues in random order, records with TAGS and KEYS, so two index entries a record. The same
arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from bench import build

MIB = 1 << 20


def make_store(
    root: pathlib.Path,
    *,
    mib: int = 1024,
    body: int = 128,
    mixed: bool = False,
    log_only: bool = False,
    file_mib: int | None = None,
) -> int:
    """Write the store; answer the number of records.

    Parameters
    ----------
    root : pathlib.Path
        The store's directory, empty or absent.
    mib : int
        MiB of CommitLog.
    body : int
        Bytes of a body, at most 262144.
    mixed : bool
        Bodies of 0.5 to 1.5 times `body`, evenly.
    log_only : bool
        Write ``commitlog/`` and nothing else.
    file_mib : int, optional
        MiB of a CommitLog file; by default 1024, or `mib` when that is less.
    """
    root.mkdir(parents=True, exist_ok=True)
    file_size = (file_mib or min(mib, 1024)) * MIB
    maker = build.program("make_store", "store_files")
    numbers = (mib * MIB, file_size, body, int(mixed), int(not log_only))
    lines = build.output([maker, root, *map(str, numbers)])
    return int(lines[0][0])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.make_store", description=__doc__.splitlines()[0]
    )
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=1024, help="MiB of CommitLog (default 1024)")
    parser.add_argument("--body", type=int, default=128, help="bytes of a body (default 128)")
    parser.add_argument("--mixed", action="store_true", help="bodies of 0.5 to 1.5 times --body")
    parser.add_argument("--log-only", action="store_true", help="neither queues nor index")
    parser.add_argument(
        "--file-mib", type=int, help="size of a CommitLog file (default 1024, or --mib when less)"
    )
    args = parser.parse_args()
    if args.dir.exists() and any(args.dir.iterdir()):
        parser.error(f"{args.dir} is not empty")
    records = make_store(
        args.dir,
        mib=args.mib,
        body=args.body,
        mixed=args.mixed,
        log_only=args.log_only,
        file_mib=args.file_mib,
    )
    print(f"{records} records in {args.mib} MiB: {args.dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
