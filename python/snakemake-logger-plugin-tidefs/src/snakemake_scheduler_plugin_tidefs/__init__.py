"""The scheduler of Snakemake that tells Tidefs which jobs are to run, and leaves the choice to Snakemake's own.

What becomes of the jobs is told by the logger plug-in beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.interfaces.jobs import JobSchedulerInterface

from snakemake_logger_plugin_tidefs.feed import FEED, TOLD, Job


#: What an author has marked so is to stay.
LASTING = {"protected", "report"}


class Scheduler(SchedulerBase):
    feed = FEED

    def __post_init__(self) -> None:
        self._slots: Optional[int] = None
        self._told: frozenset[Any] = frozenset()

    def select_jobs(
        self,
        selectable_jobs: Sequence[JobSchedulerInterface],
        remaining_jobs: Sequence[JobSchedulerInterface],
        available_resources: Mapping[str, Any],
        input_sizes: Any,
    ) -> Optional[Sequence[JobSchedulerInterface]]:
        with self.feed.harmless():
            self._tell(available_resources)
        # Snakemake's greedy scheduler chooses.
        return None

    def _tell(self, available_resources: Mapping[str, Any]) -> None:
        cores = available_resources.get("_cores")
        if isinstance(cores, int) and not self._told:
            # At first all are free.
            self._slots = cores
        jobs = frozenset(self.dag.needrun_jobs())
        self.feed.ended_jobs = self.ended_jobs
        self.feed.catch_up()
        # A checkpoint may have added some.
        if not jobs <= self._told:
            self._told |= jobs
            self.feed.graph(self.jobs(), self.targets(), self._slots)
            os.environ[TOLD] = "1"

    def jobs(self) -> list[Job]:
        return [self.job(job) for job in sorted(self.dag.needrun_jobs(), key=lambda job: job.jobid)]

    def job(self, job: Any) -> Job:
        resources = getattr(job, "resources", {})
        disk, minutes = resources.get("disk_mb"), resources.get("runtime")
        output = list(job.output)
        temporary = [file for file in output if file.flags.get("temp")]
        needed = {before.jobid for before in self.dag.job_dependencies(job) if before in self._told}
        return Job(
            id=str(job.jobid),
            kind=job.rule.name,
            reads=self.names(job.input),
            writes=self.names(output),
            temporary=self.names(temporary),
            after=[str(id) for id in sorted(needed)],
            # What is only known later is no number yet.
            bytes_most=disk * 1_000_000 if isinstance(disk, int) else None,
            seconds=minutes * 60.0 if isinstance(minutes, int) else None,
        )

    def ended_jobs(self) -> list[str]:
        return [str(job.jobid) for job in self._told if self.dag.finished(job)]

    def names(self, files: Iterable[Any]) -> list[str]:
        names = [self.feed.name(path(file)) for file in files]
        return sorted({name for name in names if name is not None})

    def targets(self) -> list[str]:
        """What was asked for: files and the output of jobs that were named, and what jobs read that write nothing."""
        asked = list(getattr(self.dag, "targetfiles", []))
        for job in getattr(self.dag, "targetjobs", []):
            asked += job.output
        # Those that have not ended.
        jobs = list(self.dag.needrun_jobs())
        # What is there may be read by jobs that only a checkpoint will show.
        is_all_known = not any(job.is_checkpoint for job in jobs)
        for job in jobs:
            asked += [] if list(job.output) else job.input
        for job in self._told:
            asked += [
                file
                for file in job.output
                if file.flags.keys() & LASTING or not (is_all_known or file.flags.get("temp"))
            ]
        return self.names(asked)


def path(file: Any) -> str:
    """Where a file lies: with a storage plug-in not where the job sees it."""
    stored = getattr(file, "is_storage", False) and getattr(file.storage_object, "path", None)
    return os.fspath(stored) if stored else os.path.abspath(str(file))
