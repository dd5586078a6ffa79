"""Who holds what, as each node says of itself."""

import json
import socket
from pathlib import Path

from shown import shown_to

PARTITIONS = 16_384
ANSWER_SECONDS_MAX = 30


# A node's number of partitions may be off its share by this part: bytes come first.
NUMBER_OFF_MOST = 0.1


def odd(instance: Path) -> str | None:
    """The partitions that no node says are its own, or two; `None` where each has one owner."""
    counts = [0] * PARTITIONS
    for ranges in by_node(instance):
        for first, last in ranges:
            for partition in range(first, last + 1):
                counts[partition] += 1
    found = [number for number, count in enumerate(counts) if count != 1]
    return f"partitions without an owner or with two: {found[:10]}" if found else None


def uneven(instance: Path) -> str | None:
    """How many partitions each node says it holds, where one of equal nodes is far off its share."""
    counts = [sum(last + 1 - first for first, last in ranges) for ranges in by_node(instance)]
    share = PARTITIONS / len(counts)
    far = any(abs(count - share) > NUMBER_OFF_MOST * share for count in counts)
    return f"partitions are uneven in number: {counts}" if far else None


def by_node(instance: Path) -> list[list[tuple[int, int]]]:
    """The ranges of partitions that each node says it holds."""
    nodes = json.loads((instance / "cluster.json").read_text())["nodes"]
    secret = (instance / "secret").read_text()
    return [held(node["socket"], shown_to(secret, node["id"])) for node in nodes]


def held(path: str, secret: str) -> list[tuple[int, int]]:
    """The ranges of partitions that a node says it holds."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_SECONDS_MAX)
        line.connect(path)
        replies = line.makefile("rb")

        def ask(*words: str) -> bytes:
            request = [f"*{len(words)}\r\n"]
            request += [f"${len(word)}\r\n{word}\r\n" for word in words]
            line.sendall("".join(request).encode())
            head = replies.readline()
            assert head[:1] in b"+$", f"{path} answers {head!r}"
            return replies.read(int(head[1:]) + 2) if head[:1] == b"$" else head

        ask("AUTH", "tidefs", secret)
        table = ask("CLUSTER", "NODES").decode()
    itself = next(row.split() for row in table.splitlines() if "myself" in row)
    slots = [word for word in itself[8:] if not word.startswith("[")]
    opened = [word for word in itself[8:] if word.startswith("[")]
    assert not opened, f"{path} has partitions on their way: {opened[:3]}"
    pairs = [word.split("-") for word in slots]
    return [(int(pair[0]), int(pair[-1])) for pair in pairs]
