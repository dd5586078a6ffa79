"""The logger of Snakemake that tells Tidefs which job has begun, has ended, and what it wrote.

It writes no log. Which jobs there are is told by the scheduler plug-in beside it.
"""

from __future__ import annotations

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from .feed import FEED


class LogHandler(LogHandlerBase):
    feed = FEED

    def emit(self, record: LogRecord) -> None:
        with self.feed.harmless():
            self._tell(record)

    def _tell(self, record: LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_STARTED:
            for id in getattr(record, "jobs", None) or []:
                self.feed.started(str(id))
        elif event == LogEvent.JOB_FINISHED:
            self.feed.finished(str(getattr(record, "job_id", "")))
        elif event == LogEvent.JOB_ERROR:
            self.feed.failed(str(getattr(record, "jobid", "")))
        elif event == LogEvent.PROGRESS:
            self.feed.look()

    def close(self) -> None:
        with self.feed.harmless():
            self.feed.end()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        return False

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        """Also when Snakemake is to be quiet."""
        return True

    @property
    def has_formatter(self) -> bool:
        return True

    @property
    def needs_rulegraph(self) -> bool:
        return False
