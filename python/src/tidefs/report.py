"""The report of a run: `report.json` with types, and `report.html` for notebooks."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ReportMissing
from .status import size


@dataclass(frozen=True)
class Report:
    """What a run used. Sizes are in bytes, times in seconds; `raw` has all of report.json.

    `resource_usage_improvement` compares memory that stood idle with a run of a fixed number of
    nodes: 0.25 means a quarter less of it.
    """

    wall_seconds: float
    peak_used_bytes: int
    peak_nodes: int
    node_seconds: float
    used_byte_seconds: float
    allocated_byte_seconds: float
    resource_usage_improvement: float
    io_errors: int
    reconfigurations: tuple[Mapping[str, Any], ...]
    lost_files: tuple[str, ...]
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    page: str = field(repr=False, compare=False)

    @classmethod
    def read(cls, directory: Path) -> Report:
        """Reads what `tidefs run --report DIR` wrote.

        Raises ReportMissing where it wrote nothing.
        """
        try:
            raw = json.loads((directory / "report.json").read_text())
            page = (directory / "report.html").read_text()
        except FileNotFoundError as error:
            raise ReportMissing(f"the run wrote no {Path(error.filename).name}") from error
        return cls(
            wall_seconds=raw["wall_seconds"],
            peak_used_bytes=raw["peak_used_bytes"],
            peak_nodes=raw["peak_nodes"],
            node_seconds=raw["node_seconds"],
            used_byte_seconds=raw["used_byte_seconds"],
            allocated_byte_seconds=raw["allocated_byte_seconds"],
            resource_usage_improvement=raw["resource_usage_improvement"],
            io_errors=raw["io_errors"],
            reconfigurations=tuple(raw["reconfigurations"]),
            lost_files=tuple(raw["lost_files"]),
            raw=raw,
            page=page,
        )

    def __str__(self) -> str:
        return (
            f"{self.wall_seconds:.1f} s, peak {size(self.peak_used_bytes)} on {self.peak_nodes} "
            f"nodes, {len(self.reconfigurations)} reconfigurations, {self.io_errors} I/O errors"
        )

    def _repr_html_(self) -> str:
        """The page that `tidefs run --report` writes, in a frame of its own: its styles and scripts
        stay apart from the notebook's."""
        page = html.escape(self.page, quote=True)
        return (
            f'<iframe title="Report of a Tidefs run" sandbox="allow-scripts" srcdoc="{page}" '
            'style="width:100%;height:640px;border:0"></iframe>'
        )
