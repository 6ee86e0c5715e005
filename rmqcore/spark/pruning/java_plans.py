"""Plans of Spark made and changed from Python, through py4j."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqcore.spark.pruning.relations import Relation, sequence
from rmqcore.spark.source.registration import FORMAT
from rmqcore.spark.storage.store_pin import StorePin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PlanMaker:
    """Makes plans in a session.

    Parameters
    ----------
    spark : SparkSession
        A session in this process, not one of Spark Connect.

    Attributes
    ----------
    jvm : JVMView
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark
        self._java = self._spark._jsparkSession  # noqa: SLF001
        jvm: Any = self._spark._jvm  # noqa: SLF001
        self.jvm = jvm
        self._logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._dataset = jvm.org.apache.spark.sql.classic.Dataset

    def unknown_rows(self, schema: Any) -> Any:
        """Return a leaf with this schema of unknown content: the optimizer cannot infer that it has no rows."""
        rows = self._spark._sc._jsc.emptyRDD()  # noqa: SLF001
        return self._java.createDataFrame(rows, schema).queryExecution().analyzed()

    def renumbered(self, leaf: Any, wanted: Iterable[Any]) -> Any:
        """Return a plan with a leaf's columns under the numbers of those wanted, by name; missing ones are null."""
        by_name = {attribute.name(): attribute for attribute in sequence(leaf.output())}
        columns = []
        for old in wanted:
            value = by_name.get(old.name())
            if value is None:
                value = self._expressions.Literal(None, old.dataType())
            columns.append(self._alias(value, old))
        return self._logical.Project(self._seq(columns), leaf)

    def replaced(
        self, plan: Any, relations: Iterable[Relation], by_ids: Mapping[tuple[int, ...], Any]
    ) -> Any:
        """Return a plan with relations replaced by other plans, also in its subqueries."""
        pairs = self.jvm.java.util.HashMap()
        for relation in relations:
            if relation.ids in by_ids:
                pairs.put(relation.plan, by_ids[relation.ids])
        # A map of Scala is a partial function, the type that Spark expects.
        return plan.transformUpWithSubqueries(self.jvm.PythonUtils.toScalaMap(pairs))

    def pins(self, relation: Relation) -> dict[str, StorePin]:
        """Return where the stores of a relation ended when it was loaded; empty if a user or a catalog gave its schema."""
        options = relation.plan.options()
        if not (options.containsKey("path") or options.containsKey("paths")):
            return {}  # a table of the catalog: the ends were not looked up
        # Spark stores the source in a private field of the table, as pickled bytes.
        field = relation.plan.table().getClass().getDeclaredField("ds")
        field.setAccessible(True)
        made = field.get(relation.plan.table()).getOrCreateDataSourceInPython(
            FORMAT, options, self.jvm.scala.Option.empty()
        )
        return dict(pickle.loads(bytes(made.dataSource())).pins)  # noqa: S301 - our own source, as `load` has made it

    def at_this_time(self, plan: Any) -> Any:
        """Return a plan with the present time for ``now()`` and similar functions: a query's needs may depend on it."""
        return self.jvm.org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime.apply(plan)

    def optimized(self, plan: Any) -> Any:
        """Return the plan as Spark's optimizer leaves it."""
        return self._dataset.ofRows(self._java, plan).queryExecution().optimizedPlan()

    def frame(self, plan: Any) -> DataFrame:
        """Return a DataFrame of a plan; later operations can name only its columns.

        Spark finds a column that a ``select`` left out again if a later ``orderBy`` or ``where`` names it. Here that
        column may not have been read; under an alias Spark does not look for it.
        """
        from pyspark.sql.classic.dataframe import DataFrame

        qualifiers = {
            tuple(sequence(attribute.qualifier())) for attribute in sequence(plan.output())
        }
        *above, name = (qualifiers.pop() if len(qualifiers) == 1 else ()) or ("optimized",)
        alias = self.jvm.org.apache.spark.sql.catalyst.AliasIdentifier(name, self._seq(above))
        hidden = self._logical.SubqueryAlias(alias, plan)
        return DataFrame(self._dataset.ofRows(self._java, hidden), self._spark)

    def _alias(self, value: Any, old: Any) -> Any:
        """Return a value as a column with the name, number and metadata of another."""
        metadata, empty = self.jvm.scala.Option.apply(old.metadata()), self._seq([])
        return self._expressions.Alias(value, old.name(), old.exprId(), empty, metadata, empty)

    def _seq(self, values: Sequence[Any]) -> Any:
        found = self.jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return self.jvm.PythonUtils.toSeq(found)
