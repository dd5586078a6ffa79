#!/usr/bin/python3
"""Makes a database of nucleotide sequences and queries that have matches in it.

Sequences have log-normal lengths.  Some are mutated pieces of a few ancestors, so that
families of related sequences exist; the rest is random.  A query is a piece of some
sequence, slightly mutated.  The same options make the same bytes.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
from stages import positive

BASES = np.frombuffer(b"ACGT", dtype="u1")
ANCESTORS, ANCESTOR_LENGTH = 40, 6000
RELATED_SHARE = 0.3
LENGTH_MEDIAN, LENGTH_SPREAD = 1800, 0.8
LENGTH_MIN, LENGTH_MAX = 200, 20_000
QUERY_MUTATION = 0.03


def random_bases(rng, length: int) -> np.ndarray:
    return BASES[rng.integers(0, 4, length)]


def mutated(rng, sequence: np.ndarray, rate: float) -> np.ndarray:
    result = sequence.copy()
    places = np.flatnonzero(rng.random(result.size) < rate)
    result[places] = random_bases(rng, places.size)
    return result


def piece(rng, sequence: np.ndarray, length: int) -> np.ndarray:
    start = rng.integers(0, max(1, sequence.size - length + 1))
    return sequence[start : start + length]


def make_sequences(rng, count: int) -> list[np.ndarray]:
    ancestors = [random_bases(rng, ANCESTOR_LENGTH) for _ in range(ANCESTORS)]
    sequences = []
    for _ in range(count):
        length = rng.lognormal(np.log(LENGTH_MEDIAN), LENGTH_SPREAD)
        length = int(np.clip(length, LENGTH_MIN, LENGTH_MAX))
        if rng.random() < RELATED_SHARE:
            ancestor = ancestors[rng.integers(ANCESTORS)]
            sequence = mutated(rng, piece(rng, ancestor, length), rng.uniform(0.05, 0.25))
        else:
            sequence = random_bases(rng, length)
        sequences.append(sequence)
    return sequences


def make_queries(rng, sequences: list[np.ndarray], count: int) -> list[np.ndarray]:
    return [
        mutated(
            rng,
            piece(rng, sequences[rng.integers(len(sequences))], rng.integers(300, 900)),
            QUERY_MUTATION,
        )
        for _ in range(count)
    ]


def write_fasta(path: Path, name: str, sequences: list[np.ndarray]) -> None:
    with open(path, "wb") as file:
        for number, sequence in enumerate(sequences):
            file.write(b">%s\n%s\n" % (name.format(number).encode(), sequence.tobytes()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write; made if it does not exist")
    parser.add_argument("--sequences", type=positive, default=2000)
    parser.add_argument("--queries", type=positive, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(options.seed)
    sequences = make_sequences(rng, options.sequences)
    write_fasta(options.folder / "database.fa", "gnl|TIDE|{:07d}", sequences)
    queries = make_queries(rng, sequences, options.queries)
    write_fasta(options.folder / "queries.fa", "query{:05d}", queries)


if __name__ == "__main__":
    main()
