"""The extensions, the library of kernels that they link, and the build switches; everything else is in pyproject.toml.

Switches (environment): RMQCORE_SANITIZE=1 builds with ASan and UBSan, RMQCORE_DEBUG=1 without optimisation, with assertions
and debug information, RMQCORE_COVERAGE=1 with line tracing, RMQCORE_FREETHREADING=1 declares that the extensions need no GIL
(set where a free-threaded Python runs the tests), RMQCORE_IN_PLACE=1 compiles nothing: pip, for an editable
install, would compile again what `build_ext --inplace` has made. With SOURCE_DATE_EPOCH, two builds of one commit have the
same bytes.
"""

import gzip
import os
import sys
import tarfile
from glob import glob
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

NATIVE = "src/rmqcore/_native"  # a folder holds the extensions and the kernels of a subject
API = "src/rmqcore/c_api.h"
HEADERS = [API, *sorted(glob(f"{NATIVE}/*/*.h"))]
# For extensions of other projects (docs/c_api.md). The wheel has them in rmqcore/include, a checkout in src, at the same places
# below it: `rmqcore.get_include()`. They include each other relative to their own folder.
PUBLIC_HEADERS = [
    "rmqcore/c_api.h",
    "rmqcore/_native/crc32/crc32.h",
    "rmqcore/_native/format/be.h",
    "rmqcore/_native/format/cq.h",
    "rmqcore/_native/format/cq_bulk.h",
    "rmqcore/_native/format/index_file.h",
    "rmqcore/_native/format/jhash.h",
    "rmqcore/_native/format/layout.h",
    "rmqcore/_native/format/properties.h",
    "rmqcore/_native/format/record.h",
    "rmqcore/_native/format/text.h",
    "rmqcore/_native/format/utf8.h",
]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def switch(name: str) -> bool:
    return os.environ.get(f"RMQCORE_{name}", "") not in ("", "0")


# -g0: Python's own flags ask for debug information, which made nine tenths of a wheel.
compile_args = ["-std=gnu11", "-Wall", "-Wextra", "-O3", "-g0"]
# What Cython writes around the kernels is a seventh smaller with -O2; nothing needs the symbols: a wheel of 2.5 MB, not 3.
glue_args = [*compile_args, "-O2"]
link_args = ["-Wl,-s"] if sys.platform == "linux" else []
if switch("SANITIZE"):
    compile_args += [*SANITIZERS, "-fno-omit-frame-pointer", "-g", "-O1"]
    glue_args, link_args = compile_args, SANITIZERS
if switch("DEBUG"):
    compile_args += ["-O0", "-g", "-UNDEBUG"]
    glue_args, link_args = compile_args, [arg for arg in link_args if arg != "-Wl,-s"]


def compile_only_older(command: Any) -> None:
    """Have a command compile only what is older than its source, a header or this file."""
    compile_one = command.compiler._compile  # noqa: SLF001 - the one place where each object passes
    headers = max(map(os.path.getmtime, [*HEADERS, __file__]))

    def compile_if_older(target: str, source: str, *rest: Any) -> None:
        newest = max(headers, os.path.getmtime(source))
        if command.force or not os.path.exists(target) or os.path.getmtime(target) <= newest:
            compile_one(target, source, *rest)

    command.compiler._compile = compile_if_older  # noqa: SLF001


class BuildKernels(build_clib):  # type: ignore[misc]  # setuptools has no types
    """Compiles the kernels once, into a static library."""

    def build_libraries(self, libraries: Any) -> None:
        """Build it."""
        compile_only_older(self)
        super().build_libraries(libraries)


class BuildExtensions(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Builds the library of kernels first, which the extensions link; those as many at a time as there are processors."""

    parallel: int | None

    def finalize_options(self) -> None:
        """Take the number of processors where no `--parallel` is given: pip gives none."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        """Build the library, then the extensions."""
        self.run_command("build_clib")
        super().run()

    def build_extensions(self) -> None:
        """Build what is older than its sources or a kernel."""
        compile_only_older(self)
        # Link all of them: their own objects need not be newer when a kernel is.
        self.compiler.force = True
        super().build_extensions()


class BuildPython(build_py):  # type: ignore[misc]  # setuptools has no types
    """Copies the headers for other projects into the package."""

    def build_package_data(self) -> None:
        """Copy the files that pyproject.toml names, and the headers. An editable install does not call it."""
        super().build_package_data()
        for header in PUBLIC_HEADERS:
            target = os.path.join(self.build_lib, "rmqcore", "include", header)
            self.mkpath(os.path.dirname(target))
            self.copy_file(os.path.join("src", header), target)


class SameSdist(sdist):  # type: ignore[misc]  # setuptools has no types
    """Writes an archive that does not tell when, by whom and in which order it was made: wheels do not, of themselves."""

    def make_archive(self, base_name: str, format: str, *rest: Any, **more: Any) -> str:  # noqa: A002 - the name of setuptools
        """Make it."""
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or format != "gztar":
            return str(super().make_archive(base_name, format, *rest, **more))

        def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = int(epoch)
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        path = f"{base_name}.tar.gz"
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(epoch)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            # `add` takes the names of a folder in their order.
            archive.add(os.path.basename(base_name), filter=plain)
        return path


def extensions() -> list[Extension]:
    made: list[Extension] = cythonize(  # type: ignore[no-untyped-call]
        [
            Extension(
                source.removeprefix("src/").removesuffix(".pyx").replace("/", "."),
                [source],
                include_dirs=[NATIVE, "src"],
                extra_compile_args=glue_args,
                extra_link_args=link_args,
                define_macros=[
                    ("RMQCORE_LINKS_KERNELS", None),
                    *([("CYTHON_TRACE_NOGIL", "1")] if switch("COVERAGE") else []),
                ],
            )
            for source in sorted(glob(f"{NATIVE}/*/*.pyx"))
        ],
        include_path=["src", "."],
        # A folder for each kind of generated C: Cython would not notice that a directive changed.
        build_dir="-".join(["build/generated", *filter(switch, ["COVERAGE", "FREETHREADING"])]),
        compiler_directives={
            "language_level": 3,
            "freethreading_compatible": switch("FREETHREADING"),
            "embedsignature": True,
            "linetrace": switch("COVERAGE"),
        },
    )
    # Not above: cythonize copies the files that it knows of to its output, where session.c is what it makes of session.pyx.
    for extension in made:
        extension.depends += [API, *sorted(glob(f"{NATIVE}/*/*.[ch]"))]
    return made


setup(
    cmdclass={
        "build_clib": BuildKernels,
        "build_ext": BuildExtensions,
        "build_py": BuildPython,
        "sdist": SameSdist,
    },
    libraries=[]
    if switch("IN_PLACE")
    else [
        (
            "rmqkernels",
            {
                "sources": sorted(glob(f"{NATIVE}/*/*.c")),
                "include_dirs": [NATIVE],
                "cflags": compile_args,
                "obj_deps": {"": [*HEADERS, __file__]},
            },
        )
    ],
    ext_modules=[] if switch("IN_PLACE") else extensions(),
)
