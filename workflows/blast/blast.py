#!/usr/bin/python3
"""Searches a split sequence database with split queries, and merges what was found.

The database is cut into N pieces and the queries into M; every piece of the database is
formatted, every pair is searched, and the results are merged.  All of that runs for both
formats of BLAST databases: version 4 writes plain files, version 5 writes through a shared
memory map.  With N = M = 1 it is the unsplit search that the others must equal.

The work folder is the one given, or `blast` inside the mount of `tidefs run`:

    tidefs run --nodes 4 --node-memory 256MiB -- \\
        workflows/blast/blast.py --input SEQUENCES --output RESULTS
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from stages import Stages, Task, copy_tasks, finish, positive, work_folder

# The files of a database by the version of its format.
FORMATS = {
    "4": ("nhr", "nin", "nsq"),
    "5": ("ndb", "nhr", "nin", "not", "nsq", "ntf", "nto"),
}
# Far more than any query has, so that no match is cut off and the merge stays exact.
MATCHES_MAX = 5000
EXPECTED_MAX = "1e-5"

DATABASE, QUERIES = Path("database.fa"), Path("queries.fa")


def records(path: Path) -> list[bytes]:
    """The sequences of a FASTA file, each with its title line."""
    return [b">" + record for record in path.read_bytes().split(b">") if record]


def bases(record: bytes) -> int:
    title, _, sequence = record.partition(b"\n")
    return len(sequence) - sequence.count(b"\n")


def total_bases(path: Path) -> int:
    return sum(map(bases, records(path)))


def split(source: Path, pieces: list[Path]) -> None:
    """Cuts a FASTA file into pieces of about as many bases each, keeping the order."""
    parts: list[list[bytes]] = [[] for _ in pieces]
    whole = records(source)
    total, before = sum(map(bases, whole)), 0
    for record in whole:
        parts[before * len(pieces) // total].append(record)
        before += bases(record)
    for piece, part in zip(pieces, parts):
        piece.write_bytes(b"".join(part))


def pieces(name: str, count: int) -> list[Path]:
    return [Path(f"{name}.{number:03d}.fa") for number in range(count)]


def split_task(stages: Stages, source: Path, parts: list[Path]) -> Task:
    folder = stages.folder
    return Task(lambda: split(folder / source, [folder / part for part in parts]), parts)


def format_task(part: Path, version: str) -> Task:
    database = Path(f"v{version}", part.stem)
    return Task(
        [
            "makeblastdb",
            *("-in", part, "-dbtype", "nucl"),
            *("-blastdb_version", version, "-out", database),
        ],
        [database.with_name(f"{database.name}.{kind}") for kind in FORMATS[version]],
    )


def found(version: str, part: Path, query: Path) -> Path:
    return Path(f"v{version}", f"{part.stem}.{query.stem}.tsv")


def search_task(part: Path, query: Path, version: str, space: int) -> Task:
    result = found(version, part, query)
    return Task(
        [
            "blastn",
            *("-task", "blastn", "-query", query, "-db", Path(f"v{version}", part.stem)),
            *("-searchsp", str(space), "-evalue", EXPECTED_MAX),
            *("-outfmt", "6", "-max_target_seqs", str(MATCHES_MAX)),
            *("-num_threads", "1", "-out", result),
        ],
        [result],
    )


def merge(sources: list[Path], result: Path) -> None:
    """Joins tables of matches: by query, then the best score, then the rest of the line."""
    lines = [line for source in sources for line in source.read_text().splitlines()]
    lines.sort(key=lambda line: (line.split("\t")[0], -float(line.split("\t")[11]), line))
    result.write_text("".join(f"{line}\n" for line in lines))


def run(stages: Stages, source: Path, output: Path, database: int, queries: int) -> None:
    work = stages.folder
    parts, query_parts = pieces("database", database), pieces("queries", queries)
    stages.run("stage in", copy_tasks([source / DATABASE, source / QUERIES], work))
    stages.run(
        "split",
        [split_task(stages, DATABASE, parts), split_task(stages, QUERIES, query_parts)],
    )
    # A match's expectation value follows from the size of what is searched.  That of the
    # whole, given to every search of a piece, makes their values those of the whole.
    space = total_bases(work / DATABASE) * total_bases(work / QUERIES)
    merged = []
    for version in FORMATS:
        (work / f"v{version}").mkdir()
        stages.run(f"format v{version}", [format_task(part, version) for part in parts])
        stages.run(
            f"search v{version}",
            [search_task(part, query, version, space) for part in parts for query in query_parts],
        )
        result = Path(f"matches.v{version}.tsv")
        tables = [work / found(version, p, q) for p in parts for q in query_parts]
        join = Task(lambda: merge(tables, work / result), [result])
        stages.run(f"merge v{version}", [join])
        merged.append(work / result)
    stages.run("stage out", copy_tasks(merged, output))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--input", type=Path, required=True, help="folder of sequences.py")
    parser.add_argument("--output", type=Path, required=True, help="where the matches go")
    parser.add_argument("--work", type=Path, help="empty folder to work in")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count(), help="tasks at a time")
    parser.add_argument("--database-pieces", type=positive, default=4)
    parser.add_argument("--query-pieces", type=positive, default=4)
    options = parser.parse_args()

    if not (options.input / DATABASE).is_file():
        sys.exit(f"{options.input} holds no {DATABASE}; workflows/blast/sequences.py makes one")
    options.output.mkdir(parents=True, exist_ok=True)
    stages = Stages(work_folder(options.work, "blast"), options.jobs)
    counts = options.database_pieces, options.query_pieces
    finish("blast", lambda: run(stages, options.input, options.output, *counts))
    stages.save(options.output / "stages.json")


if __name__ == "__main__":
    main()
