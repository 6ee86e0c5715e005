"""The relations of a query that read stores, as Spark's analyzed plan has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rmqcore.spark.options.catalog_tables import with_kept_options
from rmqcore.spark.source.registration import FORMAT

_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_TABLE = "org.apache.spark.sql.execution.datasources.v2.python.PythonTable"


@dataclass(frozen=True)
class Relation:
    """A leaf of a plan that reads a store; several may share what one ``load()`` made.

    Attributes
    ----------
    plan : JavaObject
        The leaf.
    """

    plan: Any

    @cached_property
    def attributes(self) -> list[Any]:
        """The columns, as Spark's attributes."""
        return list(sequence(self.plan.output()))

    @cached_property
    def names(self) -> list[str]:
        """The columns' names."""
        return [attribute.name() for attribute in self.attributes]

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Spark's numbers of the columns. Leaves with the same numbers are the same relation in several places."""
        return tuple(id_of(attribute) for attribute in self.attributes)

    @cached_property
    def options(self) -> dict[str, str]:
        """The options that the source was loaded with, or that a table of Spark's catalog has."""
        metadata = (json.loads(attribute.metadata().json()) for attribute in self.attributes)
        return with_kept_options(self.plan.options().asCaseSensitiveMap(), metadata)

    def shares_source_with(self, other: Relation) -> bool:
        """Return True if both were made by one ``load()``: Spark plans them once, so both see the same rows."""
        return bool(self.plan.table().equals(other.plan.table()))


def relations_of(plan: Any) -> list[Relation]:
    """Return the leaves of a plan and of its subqueries that read stores."""
    return [Relation(leaf) for leaf in leaves_of(plan) if _is_ours(leaf)]


def leaves_of(plan: Any) -> Iterator[Any]:
    """Yield the leaves of a plan and of its subqueries."""
    for one in (plan, *sequence(plan.subqueriesAll())):
        yield from sequence(one.collectLeaves())


def _is_ours(leaf: Any) -> bool:
    if class_of(leaf) != _RELATION:
        return False
    table = leaf.table()
    return class_of(table) == _TABLE and table.name() == FORMAT


def class_of(java_object: Any) -> str:
    """The full name of a Java object's class."""
    return str(java_object.getClass().getName())


def id_of(attribute: Any) -> int:
    """Spark's number of a column."""
    return int(attribute.exprId().id())


def sequence(scala: Any) -> Iterator[Any]:
    """Iterate over a sequence of Scala."""
    found = scala.iterator()
    while found.hasNext():
        yield found.next()
