"""An extension that is compiled against the headers of the installed rmqcore; it links no library."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import rmqcore

setup(
    ext_modules=cythonize(  # type: ignore[no-untyped-call]
        [Extension("commitlog_tags", ["commitlog_tags.pyx"], include_dirs=[rmqcore.get_include()])],
        language_level=3,
    ),
)
