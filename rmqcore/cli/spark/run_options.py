"""The options of every verb of ``rmqcore spark``, defined once, and their conversion for a job."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, cast

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import wants_json
from rmqcore.cli.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqcore.spark.options.source_options import Table

Stores = Annotated[
    list[str],
    typer.Argument(
        metavar="STORE...",
        help="Stores: directories, globs, NAME=PATH, or URIs such as s3://bucket/store.",
        show_default=False,
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "-o",
        "--out",
        metavar="DIR",
        help="A new or empty directory that all workers share.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """Options for the run and the output of a job; `spark_verb` adds each field to the verb as an option."""

    master: Annotated[
        str,
        typer.Option(
            "--master",
            metavar="URL",
            help="Where Spark runs: local[4], spark://host:7077, yarn, ...",
        ),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help=(
                "An option of the data source (docs/spark.md), such as maxPartitionBytes=64m; may "
                "be repeated."
            ),
        ),
    ] = None
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Append Spark's own messages to this file.",
            dir_okay=False,
            show_default="nowhere",
        ),
    ] = None
    json: arguments.Json = False
    no_progress: arguments.NoProgress = False

    def source_options(
        self,
        stores: Sequence[str],
        *,
        topics: Sequence[str] | None = None,
        table: Table = "messages",
    ) -> dict[str, Any]:
        """Return the options of the data source.

        They and the paths are checked here, because Spark takes seconds to start.

        Parameters
        ----------
        stores : sequence of str
        topics : sequence of str, optional
            They replace the option of that name.
        table : str
            The table of the data source whose options the job takes.

        Raises
        ------
        ValueError, OSError, StoreError
            See `rmqcore.spark.jobs.job_source.JobSource.open`.
        typer.BadParameter
            An option without ``=``.
        """
        from rmqcore.spark.jobs.job_source import JobSource
        from rmqcore.spark.storage.locations import NoStoreWarning

        options: dict[str, Any] = {**arguments.pairs(self.option, "--option")}
        if topics:
            options["topics"] = topics
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", NoStoreWarning)
            JobSource.open(stores, options, table)
        for warning in told:
            note(f"Warning: {warning.message}")
        warnings.simplefilter("ignore", NoStoreWarning)  # the job itself finds the stores again
        return options

    def session(self, what: str) -> AbstractContextManager[SparkSession]:
        """Return the session of this job, whose progress bar says `what`; see `spark_session`."""
        return spark_session(
            self.master,
            arguments.pairs(self.conf, "--conf"),
            self.log,
            what=what,
            no_progress=self.no_progress,
        )

    @property
    def prints_json(self) -> bool:
        """Return True if the result is printed as a JSON object."""
        return wants_json(self.json)


def spark_verb(verb: Callable[Concatenate[RunOptions, ...], int]) -> Callable[..., int]:
    """Make a command of a verb: Typer sees the verb's own parameters and behind them the fields of `RunOptions`."""
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(RunOptions, eval_str=True).parameters.values())

    @functools.wraps(verb)
    def command(**given: Any) -> int:
        run = RunOptions(**{field.name: given.pop(field.name) for field in shared})
        return verb(run, **given)

    cast("Any", command).__signature__ = inspect.Signature([*own, *shared], return_annotation=int)
    return command
