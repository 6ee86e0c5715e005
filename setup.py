"""The table of extensions and the build switches; everything else is in pyproject.toml.

Switches (environment): RMQCORE_SANITIZE=1 builds with ASan and UBSan, RMQCORE_DEBUG=1 without optimisation and with
assertions, RMQCORE_COVERAGE=1 with line tracing, RMQCORE_FREETHREADING=1 declares that the extensions need no GIL (set
where a free-threaded Python runs the tests).
"""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

NATIVE = "src/rmqcore/_native/"
CRC32 = ["crc32.c", "crc32_pclmul.c", "crc32_vpclmul.c", "crc32_arm.c"]
RECORD = ["record.c", "properties.c", "utf8.c", "text.c", *CRC32, "jhash.c"]
COLUMNS = [
    "resync.c",
    "split.c",
    "filter.c",
    "topics.c",
    "batch.c",
    "columns.c",
    "arrow_export.c",
    "prop_crc_scan.c",
]
EXTENSIONS = {
    "codec": RECORD,
    "scan": [*RECORD, *COLUMNS],
    "value_columns": [*RECORD, *COLUMNS],
    "cq": ["cq_bulk.c"],
    "mapped_file": ["mapping.c"],
    "message": RECORD,
    "commitlog": [*RECORD, "filter.c", "queue_offsets.c", "append.c"],
    "arrow_put": [
        *RECORD,
        "filter.c",
        "queue_offsets.c",
        "append.c",
        "arrow_import.c",
        "arrow_rows.c",
    ],
    "queues": ["cq_table.c", "cq_fds.c", "batch.c", "arrow_export.c"],
    "get": RECORD,
    "query": [],
    "index": ["index_file.c", "checkpoint.c", "jhash.c", "utf8.c"],
    "mapped_index": [
        "index_put.c",
        "index_file.c",
        "jhash.c",
        "utf8.c",
        "mapping.c",
        "batch.c",
        "arrow_export.c",
    ],
}
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def switch(name: str) -> bool:
    return os.environ.get(f"RMQCORE_{name}", "") not in ("", "0")


compile_args = ["-std=gnu11", "-Wall", "-Wextra", "-O3"]
link_args = []
if switch("SANITIZE"):
    compile_args += [*SANITIZERS, "-fno-omit-frame-pointer", "-g", "-O1"]
    link_args += SANITIZERS
if switch("DEBUG"):
    compile_args += ["-O0", "-g", "-UNDEBUG"]

setup(
    ext_modules=cythonize(  # type: ignore[no-untyped-call]
        [
            Extension(
                f"rmqcore._native.{name}",
                [f"{NATIVE}{name}.pyx", *(NATIVE + source for source in sources)],
                include_dirs=[NATIVE],
                depends=[NATIVE + header for header in os.listdir(NATIVE) if header.endswith(".h")],
                extra_compile_args=compile_args,
                extra_link_args=link_args,
                define_macros=[("CYTHON_TRACE_NOGIL", "1")] if switch("COVERAGE") else [],
            )
            for name, sources in EXTENSIONS.items()
        ],
        include_path=["src"],
        # A folder for each kind of generated C: Cython would not notice that a directive changed.
        build_dir="-".join(["build/cython", *filter(switch, ["COVERAGE", "FREETHREADING"])]),
        compiler_directives={
            "language_level": 3,
            "freethreading_compatible": switch("FREETHREADING"),
            "embedsignature": True,
            "linetrace": switch("COVERAGE"),
        },
    ),
)
