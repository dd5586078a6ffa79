"""What `tidefs status --json` says, with types.

Sizes are in bytes, times in seconds. `raw` has everything that the program said, fields that this
package does not know included.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class Node:
    """A storage node. `node_class` is "own" or "victim" (lent by somebody else)."""

    id: str
    node_class: str
    endpoint: str
    state: str
    memory_used_bytes: int
    memory_capacity_bytes: int
    partitions: int
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Node:
        return cls(
            id=row["id"],
            node_class=row["class"],
            endpoint=row["endpoint"],
            state=row["state"],
            # Unknown of a node that does not answer.
            memory_used_bytes=row["memory_used_bytes"] or 0,
            memory_capacity_bytes=row["memory_capacity_bytes"] or 0,
            partitions=row["partitions"],
            raw=row,
        )


@dataclass(frozen=True)
class Status:
    """A running file system at one moment."""

    store: str
    epoch: int
    nodes: tuple[Node, ...]
    mounts: tuple[str, ...]
    reconfiguration: Optional[Mapping[str, Any]]
    last_decision: Optional[Mapping[str, Any]]
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Status:
        return cls(
            store=said["store"],
            epoch=said["epoch"],
            nodes=tuple(Node.of(row) for row in said["nodes"]),
            mounts=tuple(said["mounts"]),
            reconfiguration=said["reconfiguration"],
            last_decision=said["last_decision"],
            raw=said,
        )

    @property
    def memory_used_bytes(self) -> int:
        return sum(node.memory_used_bytes for node in self.nodes)

    @property
    def memory_capacity_bytes(self) -> int:
        return sum(node.memory_capacity_bytes for node in self.nodes)

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(node.endpoint)}</td><td>{html.escape(node.node_class)}</td>"
            f"<td>{html.escape(node.state)}</td><td>{size(node.memory_used_bytes)}</td>"
            f"<td>{size(node.memory_capacity_bytes)}</td><td>{node.partitions}</td></tr>"
            for node in self.nodes
        )
        mounts = ", ".join(html.escape(mount) for mount in self.mounts) or "none"
        return (
            f"<p>Tidefs on {html.escape(self.store)}, mounts: {mounts}</p>"
            "<table><thead><tr><th>Node</th><th>Class</th><th>State</th><th>Used</th>"
            f"<th>Capacity</th><th>Partitions</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def size(count: float) -> str:
    """Bytes for people: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
