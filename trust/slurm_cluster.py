"""A real Slurm on hosts that share nothing but a network: a controller on the first, `slurmd` and `munged` on all."""

import shlex

from islands import Island, Sea, until
from sshd import put

KEY = "/home/munge.key"
SOCKET = "/run/munge/socket"
CONFIGURATION = "/home/slurm.conf"
ANSWERS_SECONDS = 30
TEXT = """ClusterName=tide
SlurmctldHost={head}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=3
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdLogFile=/run/slurm/slurmd.log
SlurmctldLogFile=/run/slurm/slurmctld.log
ReturnToService=2
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
NODE = "NodeName={name} NodeAddr={address} CPUs=2 RealMemory=2000 State=UNKNOWN"


class Slurm:
    def __init__(self, sea: Sea, hosts: list[Island], more: str = "", beside: dict[str, str] | None = None):
        """`more` is added to the configuration; `beside` are files, by name, that are beside it on the first host."""
        self.sea, self.hosts, self.head = sea, hosts, hosts[0]
        nodes = "\n".join(NODE.format(name=host.name, address=host.address) for host in hosts)
        text = TEXT.format(head=self.head.name, address=self.head.address, socket=SOCKET, nodes=nodes) + more
        key = "k" * 1024
        for host in hosts:
            host.sh("mkdir -p /run/munge /run/slurm/state /run/slurm/spool && chmod 755 / /run /run/munge")
            host.sh(f"umask 077; printf %s {key} > {KEY}; umask 022; printf %s {shlex.quote(text)} > {CONFIGURATION}")
            own = {"socket": SOCKET, "key-file": KEY, "pid-file": "/run/munge/pid", "seed-file": "/run/munge/seed"}
            own["log-file"] = "/run/munge/log"
            self._start(host, "munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in own.items()))
            until(f"munge of {host.name}", lambda: host.run("test", "-S", SOCKET).returncode == 0, ANSWERS_SECONDS)
        for name, content in (beside or {}).items():
            put(self.head, f"/home/{name}", content)
        self._start(self.head, "slurmctld", "-D", "-f", CONFIGURATION)
        for host in hosts:
            self._start(host, "slurmd", "-D", "-f", CONFIGURATION, "-N", host.name)
        until("all nodes are idle", self._is_idle, ANSWERS_SECONDS)

    def _start(self, host: Island, program: str, *words: str) -> None:
        log = self.sea.scratch / f"{program}-{host.name}.log"
        host.start(log, "env", f"SLURM_CONF={CONFIGURATION}", f"/usr/sbin/{program}", *words)

    def _is_idle(self) -> bool:
        return self.states() == {"idle"}

    def states(self) -> set[str]:
        """Of the nodes."""
        done = self.head.run("env", f"SLURM_CONF={CONFIGURATION}", "sinfo", "-h", "-N", "-o", "%T")
        return set(done.stdout.split()) if done.returncode == 0 else {"silent"}

    def call(self, *words: str) -> str:
        return self.head.call("env", f"SLURM_CONF={CONFIGURATION}", *words)

    def submit(self, script: str, *options: str) -> int:
        """A job that runs a script on its first node; its number."""
        batch = "#!/bin/sh\n" + f"export SLURM_CONF={CONFIGURATION}\n" + script
        self.head.sh(f"printf %s {shlex.quote(batch)} > /home/user/job.sh")
        options = ["--parsable", "--chdir=/home/user", "--output=/home/user/job-%j.out", *options]
        return int(self.call("sbatch", *options, "/home/user/job.sh").strip())

    def state_at_end(self, job: int) -> str | None:
        """The state and exit code of a job that is over."""
        said = self.call("scontrol", "-o", "show", "job", str(job))
        fields = dict(word.split("=", 1) for word in said.split() if "=" in word)
        is_over = fields["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT")
        return f"{fields['JobState']} {fields['ExitCode']}" if is_over else None

    def ended(self, job: int, seconds: float = 90) -> str:
        """Waits for the end of a job; its state and exit code."""
        return until(f"job {job} has ended", lambda: self.state_at_end(job), seconds)

    def output(self, job: int) -> str:
        return self.head.sh(f"cat /home/user/job-{job}.out")
