"""Columns and conditions that a query needs of each relation, found by Spark's optimizer.

Spark optimizes a plan in which each relation is replaced by a relation of unknown content. The columns that the
optimized plan does not name cannot change the query's result, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rmqcore.spark.pruning.java_plans import PlanMaker
from rmqcore.spark.pruning.relations import Relation, id_of, sequence

_KEEPS = ("Project", "Aggregate")
"""Nodes that use only the columns of their child that their own expressions name."""


@dataclass
class Need:
    """Columns and conditions that a query needs of one relation.

    Attributes
    ----------
    columns : set of str
    places : int
        How often the optimized plan reads the relation.
    conditions : list of JavaObject
        Conditions that Spark tests on each row before anything else; only complete if the relation has one place.
    """

    columns: set[str] = field(default_factory=set)
    places: int = 0
    conditions: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Needs:
    """Columns and conditions that a query needs.

    Attributes
    ----------
    by_relation : dict
        `Relation.ids` -> what the query needs of the relation.
    repeatable : bool
        Each expression is deterministic, and rows are not sampled: the result does not depend on how rows are spread
        over tasks.
    """

    by_relation: dict[tuple[int, ...], Need]
    repeatable: bool


def needs_of(maker: PlanMaker, plan: Any, relations: Sequence[Relation]) -> Needs:
    """Optimize a plan with Spark, and return what it needs of each relation."""
    stand_ins: dict[tuple[int, ...], Any] = {}
    by_rows: dict[int, Relation] = {}
    for relation in relations:
        if relation.ids not in stand_ins:
            leaf = maker.unknown_rows(relation.plan.schema())
            by_rows[leaf.rdd().id()] = relation
            stand_ins[relation.ids] = maker.renumbered(leaf, relation.attributes)
    walk = _Walk(by_rows)
    walk.visit(maker.optimized(maker.replaced(plan, relations, stand_ins)), None, [])
    return Needs(walk.found, walk.repeatable)


class _Walk:
    """Descends an optimized plan with the columns that the nodes above need."""

    def __init__(self, by_rows: dict[int, Relation]) -> None:
        self._by_rows = by_rows
        self.found = {relation.ids: Need() for relation in by_rows.values()}
        self.repeatable = True

    def visit(self, plan: Any, asked: set[int] | None, conditions: list[Any]) -> None:
        """Visit a node; `asked` has the numbers of the columns needed from it, None for all."""
        kind = plan.getClass().getSimpleName()
        own = list(sequence(plan.expressions()))
        self.repeatable &= kind != "Sample" and all(one.deterministic() for one in own)
        for subquery in sequence(plan.subqueries()):
            self.visit(subquery, None, [])
        children = list(sequence(plan.children()))
        if not children:
            self._leaf(plan, asked, conditions)
        elif kind in _KEEPS:
            self.visit(children[0], _ids(plan.references()), [])
        elif kind == "Filter":
            wanted = None if asked is None else asked | _ids(plan.references())
            self.visit(children[0], wanted, own)
        else:
            for child in children:
                self.visit(child, None, [])

    def _leaf(self, plan: Any, asked: set[int] | None, conditions: list[Any]) -> None:
        if plan.getClass().getSimpleName() != "LogicalRDD":
            return
        relation = self._by_rows.get(plan.rdd().id())
        if relation is None:
            return
        need = self.found[relation.ids]
        need.places += 1
        need.conditions += conditions
        # Compared by their places: Spark gives new numbers to a leaf that it copies.
        for attribute, name in zip(sequence(plan.output()), relation.names, strict=True):
            if asked is None or id_of(attribute) in asked:
                need.columns.add(name)


def _ids(attributes: Any) -> set[int]:
    return {id_of(attribute) for attribute in sequence(attributes.toSeq())}
