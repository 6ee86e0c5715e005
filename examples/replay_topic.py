"""Give a topic to a new broker: export it as Parquet, and write the Parquet as a store that the broker takes as its own.

    pip install 'rmqcore[spark]'
    python replay_topic.py /data/store TOPIC /data/replay

The Parquet may as well come from elsewhere. One task writes one store; without `coalesce(1)` there are several, each for a broker
of its own. The last line names the directory that the broker's storePathRootDir is to be.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rmqcore.spark


def main(path: str, topic: str, out: str) -> int:
    """Export, write, and say where the new store lies."""
    spark = rmqcore.spark.session("local[2]")
    exported, stores = f"{out}/exported", f"{out}/stores"
    rmqcore.spark.export_parquet(spark, path, exported, overwrite=True, topics=[topic])
    rows = spark.read.parquet(exported).coalesce(1).sortWithinPartitions("broker", "phy_offset")
    rows.write.format("rmqstore").mode("overwrite").save(stores)
    print(f"{spark.read.format('rmqstore').load(stores).count()} messages of {topic}")
    print(next(Path(stores).glob("part-*")))
    spark.stop()
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("Usage: python replay_topic.py STORE TOPIC FOLDER")
    sys.exit(main(*sys.argv[1:]))
