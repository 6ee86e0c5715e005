"""The table of extensions and the build switches; everything else is in pyproject.toml.

Switches (environment): RMQCORE_SANITIZE=1 builds with ASan and UBSan, RMQCORE_DEBUG=1 without optimisation and with
assertions, RMQCORE_COVERAGE=1 with line tracing.
"""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

NATIVE = "src/rmqcore/_native/"
CRC32 = ["crc32.c", "crc32_pclmul.c", "crc32_vpclmul.c", "crc32_arm.c"]
RECORD = ["record.c", "properties.c", "utf8.c", "text.c", *CRC32, "jhash.c"]
EXTENSIONS = {
    "codec": RECORD,
    "scan": [*RECORD, "window.c", "resync.c", "filter.c", "topics.c", "batch.c", "columns.c", "arrow_export.c"],
    "cq": ["cq_bulk.c"],
    "index": ["index_file.c", "checkpoint.c", "jhash.c", "utf8.c"],
}


def switch(name: str) -> bool:
    return os.environ.get(f"RMQCORE_{name}", "") not in ("", "0")


compile_args = ["-std=gnu11", "-Wall", "-Wextra", "-O0" if switch("DEBUG") else "-O3"]
link_args = []
if switch("SANITIZE"):
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g"]
    compile_args += sanitize
    link_args += sanitize
directives = {"language_level": 3, "freethreading_compatible": True, "embedsignature": True}
if switch("COVERAGE"):
    directives["linetrace"] = True

setup(
    ext_modules=cythonize(
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
            if os.path.exists(f"{NATIVE}{name}.pyx")
        ],
        include_path=["src"],
        build_dir="build/cython",
        compiler_directives=directives,
    ),
)
