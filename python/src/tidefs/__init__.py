"""Start and use Tidefs, a file system in memory for scientific workflows, from Python.

`run` starts a file system for a `with` block, `attach` finds one that runs, and `tidefs://` paths
work wherever fsspec does.
"""

from .errors import (
    CommandFailed,
    CommandTimedOut,
    NoMount,
    NotMounted,
    ProgramNotFound,
    ReportMissing,
    TidefsError,
)
from .instance import FileSystem, attach
from .report import Report
from ._run import Run, run
from .status import Node, Status

__all__ = [
    "CommandFailed",
    "CommandTimedOut",
    "FileSystem",
    "NoMount",
    "Node",
    "NotMounted",
    "ProgramNotFound",
    "Report",
    "ReportMissing",
    "Run",
    "Status",
    "TidefsError",
    "attach",
    "run",
]
