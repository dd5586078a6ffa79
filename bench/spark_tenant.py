#!/usr/bin/env python3
"""A tenant of Spark on one core: sorts random records and counts words, again and again.

For each line on standard input it does both once and answers with a line of JSON: of each the seconds that
it took, and those of a processor that it used itself.  It ends with its input.  One process does all of
them, so that no run pays for what the virtual machine compiles first; its heap does not grow, and what the
run before left there is collected before the next one begins.
"""

import argparse
import json
import os
import sys
import tempfile
import time

from pyspark.sql import SparkSession, functions

PARTITIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--memory", default="768m", help="of the virtual machine's heap")
    options = parser.parse_args()
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", options.memory)
        .config("spark.driver.extraJavaOptions", f"-Xms{options.memory}")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory(prefix="tt", dir="/dev/shm") as folder:
        for number, _ in enumerate(sys.stdin):
            times = {
                "sort": timed(session, lambda: sort(session, options.records, number, f"{folder}/sorted")),
                "word count": timed(session, lambda: count(session, f"{folder}/sorted", options.records)),
            }
            print(json.dumps(times), flush=True)
    session.stop()


def timed(session, work) -> tuple[float, float]:
    session.sparkContext._jvm.System.gc()
    begun, used = time.monotonic(), own_seconds(session)
    work()
    return time.monotonic() - begun, own_seconds(session) - used


def own_seconds(session) -> float:
    """In user and system mode, of this process and of the virtual machine with all its threads."""
    machine = session.sparkContext._gateway.proc.pid
    with open(f"/proc/{machine}/stat") as stat:
        fields = stat.read().rpartition(") ")[2].split()
    machine_ticks = int(fields[11]) + int(fields[12])
    return machine_ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def sort(session, records: int, seed: int, target: str) -> None:
    key = (functions.rand(seed) * 1e9).cast("long").alias("key")
    words = [functions.substring(functions.sha2(functions.col("id").cast("string"), 256), at, 4)
             for at in range(1, 64, 4)]
    drawn = session.range(0, records, 1, PARTITIONS)
    rows = drawn.select(key, functions.concat_ws(" ", *words).alias("text"))
    rows.orderBy("key").write.mode("overwrite").parquet(target)


def count(session, source: str, records: int) -> None:
    words = functions.explode(functions.split("text", " ")).alias("word")
    counted = session.read.parquet(source).select(words).groupBy("word").count()
    total = counted.agg(functions.sum("count")).collect()[0][0]
    assert total == 16 * records, total


if __name__ == "__main__":
    main()
