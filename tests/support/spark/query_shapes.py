"""Queries of many shapes over a view of messages, with random conditions."""

from __future__ import annotations

import random

NUMBERS = ("queue_id", "queue_offset", "phy_offset", "msg_size", "reconsume_times", "sys_flag")
TEXTS = ("topic", "tags", "keys", "uniq_key", "broker", "born_host")
SHAPES = (
    "SELECT * FROM {v}",
    "SELECT * FROM {v} WHERE {c}",
    "SELECT count(*) FROM {v}",
    "SELECT count(*), count(1), count({t}), max({n}) FROM {v} WHERE {c}",
    "SELECT {t}, {n} FROM {v} WHERE {c} AND {d}",
    "SELECT {t}, count(*), min({n}), sum(msg_size), avg({n}) FROM {v} WHERE {c} GROUP BY {t}",
    "SELECT {t} a, {u} b, count(DISTINCT {n}) FROM {v} WHERE {c} OR {d} GROUP BY {t}, {u} HAVING count(*) > 1",
    "SELECT upper({t}) FROM (SELECT *, length(body) l FROM {v}) WHERE l > 10 AND NOT ({c})",
    "SELECT a.{t}, b.{n} FROM {v} a JOIN {v} b ON a.phy_offset = b.phy_offset WHERE a.{c}",
    "SELECT a.{n}, b.{t} FROM (SELECT * FROM {v} WHERE {c}) a LEFT JOIN {v} b ON a.phy_offset = b.queue_offset",
    "SELECT {n} FROM {v} a WHERE EXISTS (SELECT 1 FROM {v} b WHERE b.tags = a.keys OR b.phy_offset = a.phy_offset AND b.{c})",
    "SELECT {n}, {t} FROM {v} WHERE phy_offset IN (SELECT phy_offset FROM {v} WHERE {c}) AND {d}",
    "SELECT {n} FROM {v} WHERE {n} >= (SELECT avg({n}) FROM {v} WHERE {c})",
    "SELECT {t} FROM {v} WHERE {c} UNION ALL SELECT {u} FROM {v} WHERE {d}",
    "SELECT {t}, {n} FROM {v} WHERE {c} UNION SELECT {t}, {n} FROM {v} WHERE {c} OR {d}",
    "SELECT {t}, queue_id FROM {v} WHERE {c} EXCEPT SELECT {t}, queue_id FROM {v} WHERE {d}",
    "SELECT {t}, queue_id FROM {v} INTERSECT SELECT {t}, queue_id FROM {v} WHERE {d}",
    "WITH c AS (SELECT * FROM {v} WHERE {c}) SELECT {t} FROM c UNION ALL SELECT {u} FROM c WHERE {d}",
    "WITH c AS (SELECT *, msg_size * 2 m FROM {v}) SELECT x.m, y.{t} FROM c x, c y WHERE x.phy_offset = y.phy_offset AND x.{c}",
    "SELECT {n}, row_number() OVER (PARTITION BY {t} ORDER BY phy_offset) r FROM {v} WHERE {c}",
    "SELECT * FROM (SELECT {t}, {n}, rank() OVER (PARTITION BY topic ORDER BY {n} DESC, phy_offset) r FROM {v}) WHERE r < 3",
    "SELECT {n} FROM {v} WHERE {c} ORDER BY store_timestamp, phy_offset LIMIT 7",
    "SELECT {n} FROM {v} WHERE {c} LIMIT 5",
    "SELECT DISTINCT {t}, {u} FROM {v} WHERE {c}",
    "SELECT properties['UNIQ_KEY'], size(properties) FROM {v} WHERE {c}",
    "SELECT k, count(*) FROM {v} LATERAL VIEW explode(map_keys(properties)) AS k WHERE {c} GROUP BY k",
    "SELECT {t}, {u}, count(*) FROM {v} WHERE {c} GROUP BY CUBE ({t}, {u})",
    "SELECT * FROM (SELECT topic, queue_id, {n} FROM {v} WHERE {c}) PIVOT (max({n}) FOR queue_id IN (0, 1, 2))",
    "SELECT TOPIC, Queue_Id q FROM {v} WHERE {c} AND BODY IS NOT NULL",
    "SELECT CASE WHEN {c} THEN {t} ELSE {u} END x, CAST({n} AS string) FROM {v}",
    "SELECT rand(3) r, monotonically_increasing_id() i, {n} FROM {v} WHERE {c}",
    "SELECT {n}, {t} FROM {v} TABLESAMPLE (30 PERCENT) REPEATABLE (5) WHERE {c}",
    "SELECT {t} FROM {v} WHERE store_timestamp < now() AND {c}",
    "SELECT a.{t}, s.n FROM {v} a, LATERAL (SELECT count(*) n FROM {v} b WHERE b.queue_offset = a.queue_offset AND b.{d}) s",
    "SELECT {t} FROM {v} WHERE 1 = 0",
    "SELECT v.*, 1 one FROM {v} v WHERE phy_offset = 0",
    "VALUES (1), (2)",
)


def queries(seed: int, view: str, sample: list[dict[str, object]]) -> list[str]:
    """A query of each shape; conditions name values of sample rows."""
    source = random.Random(seed)
    return [
        shape.format(
            v=view,
            c=_condition(source, sample),
            d=_condition(source, sample),
            n=source.choice(NUMBERS),
            **dict(zip("tu", source.sample(TEXTS, 2), strict=True)),
        )
        for shape in SHAPES
    ]


def _condition(source: random.Random, sample: list[dict[str, object]]) -> str:
    """A condition of one column, whose name comes first."""
    row = source.choice(sample)
    column = source.choice((*NUMBERS, *TEXTS, "store_timestamp", "born_timestamp"))
    value, other = _text(row[column]), _text(source.choice(sample)[column])
    if value is None or other is None:
        return f"{column} IS {source.choice(('NULL', 'NOT NULL'))}"
    kind = source.randrange(6)
    if kind == 0:
        return f"{column} IN ({value}, {other})"
    if kind == 1:
        return f"{column} BETWEEN {value} AND {other}"
    return f"{column} {source.choice(('=', '<=>', '>', '>=', '<', '<=', '<>'))} {value}"


def _text(value: object) -> str | None:
    if value is None or isinstance(value, int):
        return None if value is None else str(value)
    return f"'{value}'" if isinstance(value, str) else f"timestamp'{value}'"
