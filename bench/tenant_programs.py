"""The tenants of `tenants.py`: HPCC and Spark, on one processor of a host of a test bed."""

import json
import os
import resource
import select
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

from bed import Bed
from hosts import Failure, run
from network import on
from tenant_files import Place

PROJECT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidefs"
# Of one run of HPCC, or one answer of Spark; only a run that hangs takes so long.
RUN_SECONDS_MAX = 240
# What HPCC writes down, with its usual name, and whether more of it is better.  These are what the HPC
# Challenge draws for a machine (its Kiviat chart), and what figure 3 of the paper shows.
HPCC = {
    "HPL_Tflops": ("HPL", True),
    "StarDGEMM_Gflops": ("DGEMM", True),
    "PTRANS_GBs": ("PTRANS", True),
    "MPIRandomAccess_GUPs": ("RandomAccess", True),
    "StarSTREAM_Triad": ("STREAM", True),
    "MPIFFT_Gflops": ("FFT", True),
    "RandomlyOrderedRingBandwidth_GBytes": ("bandwidth", True),
    "RandomlyOrderedRingLatency_usec": ("latency", False),
}
PROCESSES = 2


def hpcc_input(size: int) -> str:
    """HPCC's input file, which names what each number is for; the last part is for PTRANS."""
    lines = [
        "HPLinpack benchmark input file", "for HPCC", "HPL.out", "8 device out",
        "1 # of problem sizes", f"{size} Ns", "1 # of NBs", "80 NBs", "0 row-major process mapping",
        "1 # of process grids", "1 Ps", f"{PROCESSES} Qs", "16.0 threshold", "1 # of panel fact",
        "2 right", "1 # of recursive stopping criteria", "4 NBMINs", "1 # of panels in recursion",
        "2 NDIVs", "1 # of recursive panel fact", "1 Crout", "1 # of broadcasts", "1 ring, modified",
        "1 # of lookahead depths", "1 DEPTHs", "2 swap: mix", "64 swapping threshold",
        "0 L1 transposed", "0 U transposed", "1 equilibration", "8 alignment",
        "what follows is for PTRANS", "0 # of more problem sizes", "1200 Ns",
        "0 # of more block sizes", "40 NBs",
    ]
    return "\n".join(lines) + "\n"


def blas() -> str:
    """The linear algebra that HPCC is linked with here.  No user of HPCC runs it with the reference
    one, whose speed is that of the caches."""
    lines = run("ldd", shutil.which("hpcc") or "hpcc").splitlines()
    found = next(Path(line.split()[2]).resolve() for line in lines if "libblas" in line)
    if "openblas" not in str(found):
        raise Failure(f"HPCC is linked with {found}; scripts/setup tenants installs OpenBLAS")
    return str(found)


def figures(text: str) -> dict[str, float]:
    """What HPCC wrote down, each as time for so much work."""
    pairs = (line.split("=") for line in text.splitlines() if line.count("=") == 1)
    found = dict(pairs)
    if found.get("Success") != "1":
        raise Failure(f"HPCC did not succeed: {text[-1000:]}")
    return {
        f"HPCC {called}": 1 / float(found[name]) if more else float(found[name])
        for name, (called, more) in HPCC.items()
    }


# Of one run of each program: seconds, or what grows with them, by name; and by program the seconds that it
# took and those of a processor that it used itself.
Times = tuple[dict[str, float], dict[str, tuple[float, float]]]
# Of some runs: all of the first, and medians of the second.
Runs = tuple[dict[str, list[float]], dict[str, tuple[float, float]]]


def children_seconds() -> float:
    """Of a processor, used by programs that were started here and have ended, with all that they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Tenants:
    """On the lender's host; Spark stays from the first run to the last, as its machine warms up."""

    def __init__(self, bed: Bed, place: Place, options):
        self.host, self.place, self.options = bed.hosts()[0], place, options
        self.folder = bed.folder / "hpcc"
        self.folder.mkdir()
        (self.folder / "hpccinf.txt").write_text(hpcc_input(options.hpl_size))
        self.log = bed.folder / "spark.log"
        self.spark = None

    def __enter__(self) -> "Tenants":
        words = [CACHE / "spark/bin/python", PROJECT / "bench/spark_tenant.py"]
        words += ["--records", self.options.records]
        with self.log.open("w") as log:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self.spark = self.start(*words, text=True, **streams)
        return self

    def __exit__(self, *_: object) -> None:
        end(self.spark)

    def start(self, *words: object, **how) -> subprocess.Popen:
        return on(self.host, *self.place.words(), *words, start_new_session=True, **how)

    def some(self) -> Runs:
        runs = [(self.hpcc(), self.on_spark()) for _ in range(self.options.repeats)]
        times = [hpcc[0] | spark[0] for hpcc, spark in runs]
        own = [hpcc[1] | spark[1] for hpcc, spark in runs]
        middle = lambda each: tuple(statistics.median(it) for it in zip(*each))
        return (
            {it: [run[it] for run in times] for it in times[0]},
            {it: middle([run[it] for run in own]) for it in own[0]},
        )

    def on_spark(self) -> Times:
        self.spark.stdin.write("\n")
        self.spark.stdin.flush()
        ready, _, _ = select.select([self.spark.stdout], [], [], RUN_SECONDS_MAX)
        said = self.spark.stdout.readline() if ready else ""
        if not said:
            why = "has ended" if ready else f"says nothing for {RUN_SECONDS_MAX} s"
            raise Failure(f"Spark {why}: {self.log.read_text()[-2000:]}")
        own = {f"Spark {name}": tuple(seconds) for name, seconds in json.loads(said).items()}
        return {name: took for name, (took, _) in own.items()}, own

    def hpcc(self) -> Times:
        out, log = self.folder / "hpccoutf.txt", self.folder / "log"
        # HPCC adds to it.
        out.unlink(missing_ok=True)
        # Two processes on one processor: who waits for the other lets it run.
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        words += ["--mca", "mpi_yield_when_idle", 1, "-np", PROCESSES, "hpcc"]
        begun, used = time.monotonic(), children_seconds()
        with log.open("w") as said:
            streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
            running = self.start(*words, cwd=self.folder, **streams)
        try:
            if running.wait(timeout=RUN_SECONDS_MAX) != 0:
                raise Failure(f"HPCC ended with {running.returncode}: {log.read_text()[-2000:]}")
        except subprocess.TimeoutExpired as error:
            raise Failure(f"HPCC has not ended in {RUN_SECONDS_MAX} s") from error
        finally:
            end(running)
        own = (time.monotonic() - begun, children_seconds() - used)
        return figures(out.read_text()), {"HPCC": own}


def end(leader: subprocess.Popen) -> None:
    """A program and what it started in its session."""
    if leader.poll() is None:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()
