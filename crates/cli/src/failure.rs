//! What goes wrong on the way, as facts. Each text says what happened and, behind the semicolon,
//! what to do next.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tidefs_model::ByteSize;

use crate::host_view::AbsentView;

/// Why a command of `tidefs` failed. The cause that a text has in it is not given again as its
/// source, which is told behind the text.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{} does not exist; make it first: mkdir -p {}", .0.display(), .0.display())]
    MountPointMissing(PathBuf),
    #[error(
        "the directory that {} would lie in does not exist; make it first, or choose another place",
        .0.display()
    )]
    MountParentMissing(PathBuf),
    #[error("{} is not a directory; choose another place to mount", .0.display())]
    MountPointNotADirectory(PathBuf),
    #[error(
        "{} is not empty; mounting would hide what is in it: choose another place or empty it",
        .0.display()
    )]
    MountPointNotEmpty(PathBuf),
    #[error(
        "nothing answers on the way to {} within {seconds} s; what it lies in may be a mount whose process stands still; \
         see which: tidefs list, or choose another place", path.display()
    )]
    MountPointSilent { path: PathBuf, seconds: u64 },
    #[error("{} is a mount point already; unmount it (tidefs umount {}), or mount in another directory", .0.display(), .0.display())]
    MountPointTaken(PathBuf),
    #[error("you may not write to {}, so you cannot mount there; choose a directory of your own", .0.display())]
    MountPointForeign(PathBuf),
    #[error("cannot use {} as a mount point: {cause}; mount in another directory", path.display())]
    MountPointUnusable { path: PathBuf, cause: io::Error },
    #[error("cannot make the mount point {}: {cause}; choose another place with --mount", path.display())]
    MountPointNotMade { path: PathBuf, cause: io::Error },
    #[error("{} is not a mount of a running file system; see: tidefs status", .0.display())]
    NotMounted(PathBuf),
    #[error(
        "{} is served by the process of the file system itself, and ends with it; what can be taken over \
         is what `tidefs mount` mounted, of a file system on nodes", .0.display()
    )]
    ServedByOwner(PathBuf),
    #[error(
        "the process that serves the mount does not hand it over ({cause}); it may be of an older tidefs: \
         unmount it and mount it again"
    )]
    NobodyGives { cause: io::Error },
    #[error("the mount was not handed over, and is served as before: {0}")]
    NotGiven(String),
    #[error("{} is still mounted; end what uses it (fuser -vm {}) and try again", .0.display(), .0.display())]
    StillMounted(PathBuf),

    #[error("the file system in {} has no mount; make one: tidefs mount DIR", .0.display())]
    NoMount(PathBuf),
    #[error("{} leads out of the mount {}; give a place in it", path.display(), mount.display())]
    OutsideOfMount { path: PathBuf, mount: PathBuf },
    #[error("cannot read the manifest {}: {cause}", path.display())]
    ManifestUnreadable { path: PathBuf, cause: io::Error },
    #[error("the manifest {}: {cause}", path.display())]
    ManifestWrong { path: PathBuf, cause: tidefs_stage::ManifestError },
    #[error("{files} files were not copied to the mount, so the command was not started")]
    StageInFailed { files: u64 },
    #[error("{} is not in a mount of Tidefs; see where they are: tidefs status", .0.display())]
    PlacementElsewhere(PathBuf),
    #[error(
        "{} is not a directory; a placement is of a directory, for files that are made in it later",
        .0.display()
    )]
    PlacementOfFile(PathBuf),
    #[error("the placement of {}: {cause}", path.display())]
    PlacementRefused { path: PathBuf, cause: io::Error },
    #[error("{} is no file with bytes; name the files: find {} -type f", .0.display(), .0.display())]
    WhereOfNoFile(PathBuf),
    #[error("cannot tell where {} lies: {cause}", path.display())]
    WhereUnknown { path: PathBuf, cause: io::Error },

    #[error(
        "there is no /dev/fuse, so nothing can be mounted; load the module as root: modprobe fuse"
    )]
    NoFuseDevice,
    #[error("you may not open /dev/fuse; as root: chmod 666 /dev/fuse")]
    FuseDeviceClosed,
    #[error(
        "there is no fusermount3, which mounts for users other than root; install it as root: \
         apt-get install fuse3"
    )]
    NoFusermount,
    #[error(
        "{nodes} x {each} is more memory than this machine has for it ({usable} of {total}); ask \
         for less with --node-memory or --nodes"
    )]
    TooMuchMemory { nodes: u16, each: ByteSize, usable: ByteSize, total: ByteSize },
    #[error(
        "only {available} of memory are free, too little to start with; end other programs or \
         give --node-memory"
    )]
    TooLittleMemory { available: ByteSize },

    #[error(
        "without --nodes there is nothing that could grow or shrink; give a range of nodes, such \
         as --nodes 1..6"
    )]
    NothingToScale,
    #[error("without --nodes no server is started; give a number of nodes, such as --nodes 2")]
    NothingToServe,
    #[error("cannot read the list of hosts {}: {cause}", path.display())]
    HostsUnreadable { path: PathBuf, cause: io::Error },
    #[error("the list of hosts {}: {cause}", path.display())]
    HostsWrong { path: PathBuf, cause: crate::hosts::ListError },
    #[error("the list of hosts {}: {cause}", path.display())]
    SshHostsWrong { path: PathBuf, cause: crate::ssh::ListError },
    #[error(
        "{there} of {all} hosts are there, and {required} have to be; mend the others, leave them out of the list, \
         or go on with fewer: --hosts-required {there}\n{}", lines(.absent)
    )]
    HostsAbsent { absent: Vec<(String, String)>, there: usize, all: usize, required: usize },
    #[error(
        "this is no job of Slurm; start it in one, such as in a script for: sbatch --nodes=4 --mem=8G"
    )]
    NoAllocation,
    #[error(
        "this is no node of job {job}; start it on one of them: in the job's script, or from a shell there: srun \
         --jobid={job} --overlap --pty bash"
    )]
    NotOnANodeOfTheJob { job: String },
    #[error("scontrol does not say which nodes the job has: {why}")]
    SlurmSilent { why: String },
    #[error(
        "the job has {has} of memory on each node, and {asked} are asked for; have more with --mem of the job, or ask \
         for less with --node-memory"
    )]
    MoreThanTheJobHas { asked: ByteSize, has: ByteSize },
    #[error(
        "the job has {has} of memory on each node, of which half is for the file system, and a node of it needs \
         {least} at least; have more with --mem of the job"
    )]
    JobOfLittleMemory { has: ByteSize, least: ByteSize },
    #[error("the list has {hosts} hosts, and {most} are the most; leave some out")]
    TooManyHosts { hosts: usize, most: usize },
    #[error(
        "--hosts-required {required} is more than the {all} hosts that there are, this one counted; give {all} or less"
    )]
    MoreHostsRequired { required: usize, all: usize },
    #[error(
        "--provision-command needs an address where hosts join; give one that they reach, such as --listen 10.0.0.1:0"
    )]
    NowhereForHosts,
    #[error("--provision-command: {0}")]
    NoProvision(crate::provision::Unusable),
    #[error(
        "--satellites: there is no {program} in the search path; have the programs of Slurm on the nodes of the job, or \
         leave --satellites out"
    )]
    NoSatellites { program: &'static str },
    #[error(
        "nobody says by which address other hosts reach this one; give one that they do: --listen 10.0.0.1:0"
    )]
    NoAddressForHosts,
    #[error(
        "without --nodes there is nothing that lenders at {address} could join; give a number of \
         nodes, such as --nodes 2"
    )]
    NothingToLendTo { address: SocketAddr },
    #[error(
        "cannot serve metrics at {address}: {cause}; give another address with --metrics, or port 0 \
         for one that is free"
    )]
    MetricsUnbound { address: SocketAddr, cause: io::Error },
    #[error("cannot use the token for metrics in {}: {cause}", path.display())]
    MetricsTokenUnusable { path: PathBuf, cause: String },
    #[error(
        "nodes cannot be called by the address {}; give one of this machine's that lenders reach, \
         such as --listen 10.0.0.1:{}", address.ip(), address.port()
    )]
    ListenEverywhere { address: SocketAddr },
    #[error(
        "how much memory other hosts have is not known here; say how much each node offers, such as \
         --node-memory 4GiB"
    )]
    HostsOfUnknownMemory,
    #[error("cannot listen for lenders at {address}: {cause}; give another address with --listen")]
    ListenUnusable { address: SocketAddr, cause: io::Error },
    #[error(
        "{offered} is more than this machine may use ({usable} of {total}); offer less with --memory"
    )]
    OfferTooLarge { offered: ByteSize, usable: ByteSize, total: ByteSize },
    #[error(
        "{memory} of {available} that are free would leave this machine's own programs nothing; \
         offer less with --memory, or wait until more is free"
    )]
    OfferNotFree { memory: ByteSize, available: ByteSize },
    #[error(
        "a lent node needs a control group of its own, and none can be made: {why}; run as root, or \
         have one made that you may write to"
    )]
    NoControlGroup { why: String },
    #[error("cannot read the secret in {}: {cause}; copy it from the file system's state directory", path.display())]
    LendSecretUnusable { path: PathBuf, cause: String },
    #[error("no file system can be joined at {address}: {cause}")]
    CannotJoin { address: SocketAddr, cause: String },
    #[error("the file system at {address} does not want the node: {why}")]
    NotWanted { address: SocketAddr, why: String },
    #[error("the file system at {address} does not let this host in: {why}")]
    NotLetIn { address: SocketAddr, why: String },
    #[error(
        "the connection to the file system at {address} broke and cannot be made again; the node and the \
         mounts of this host were ended"
    )]
    HostCutOff { address: SocketAddr },
    #[error(
        "the node that this host offered ended again and again; see its memory, and what ends processes here"
    )]
    NodeKeepsDying,
    #[error(
        "{memory} for the node is too little: {head_room} of it are kept for metadata; offer at least {least}"
    )]
    NodeTooSmall { memory: ByteSize, head_room: ByteSize, least: ByteSize },
    /// With what was left on the node.
    #[error("the node was ended before it was empty; what it held is lost to the file system")]
    EndedEarly,
    #[error("the node ended by itself; what it held is lost to the file system")]
    NodeDied,
    #[error("the file system at {address} has not been heard for too long; the node was ended")]
    OutOfTouch { address: SocketAddr },
    #[error(
        "the connection to the file system at {address} broke and cannot be made again; the node \
         was ended"
    )]
    ConnectionBroke { address: SocketAddr },
    #[error(
        "the number of nodes of this file system is fixed; start it with a range, such as --nodes \
         1..6, and with --policy static where it is to change by hand only"
    )]
    NodesAreFixed,
    #[error("there is no node {0}; tidefs status lists them")]
    NoSuchNode(String),
    #[error("{0} is the beginning of several nodes' ids; give more digits")]
    SeveralNodes(String),
    #[error("{0}; see: tidefs run --help")]
    Contradiction(tidefs_control::SettingsError),
    #[error("{0}")]
    WithoutEffect(crate::without_effect::WithoutEffect),

    #[error(
        "the file system in {} has reached no other host; start it with --hosts, and ask where it was started",
        .0.display()
    )]
    NoHostReached(PathBuf),
    #[error("there is no host {name}; those that there are: {}", .known.join(", "))]
    NoSuchHost { name: String, known: Vec<String> },
    #[error("nothing is run on a host that refuses: {0}")]
    NotRunOn(AbsentView),
    #[error("no file system is running in {}; start one: tidefs up; those that run elsewhere: tidefs list", .0.display())]
    NotRunning(PathBuf),
    #[error(
        "no file system is running in {}; start one: tidefs up (the log of the last one that died there is kept in {})",
        directory.display(), log.display()
    )]
    NoneSinceDeath { directory: PathBuf, log: PathBuf },
    #[error(
        "this was started by a `tidefs run`, and so a file system that is started here would end with that run; use \
         the run's own ({}), or start it from elsewhere", .0.display()
    )]
    UpInRun(PathBuf),
    #[error("{} holds several running file systems; choose one with --state: {}", base.display(), list(found))]
    SeveralRunning { base: PathBuf, found: Vec<PathBuf> },
    #[error(
        "the file system in {} belongs to the machine {host}, since {}; see to it there, or, if that \
         machine will not come back, remove it: rm -r {}",
        directory.display(), tidefs_report::instant_to_the_second(*since), directory.display()
    )]
    RunsElsewhere { directory: PathBuf, host: String, since: u64 },
    #[error(
        "the processes of the file system in {} are not seen from here, so nobody could tell that they have ended; \
         it was started outside of this container, or in another one (PID namespace): stop it there",
        .0.display()
    )]
    ProcessesUnseen(PathBuf),
    #[error(
        "somebody has the file system in {} that starts or ends just now, or whose files there are damaged; try \
         again in a moment, and if it stays so end the process that has that directory open: fuser -v {}",
        .0.display(), .0.display()
    )]
    Unreachable(PathBuf),
    #[error("a file system is running in {} already; use it, or stop it: tidefs down", .0.display())]
    AlreadyRunning(PathBuf),
    #[error("the file system in {} belongs to a `tidefs run` and ends with its command; end that instead", .0.display())]
    BelongsToRun(PathBuf),
    #[error("the file system in {} does not answer; see its log there, or stop it: tidefs down", .0.display())]
    Silent(PathBuf),
    #[error(
        "the process that had the file system in {} has just died, and the file system with it; the next command cleans up \
         what it left and names its log: tidefs status", .0.display()
    )]
    JustDied(PathBuf),
    #[error(
        "process {pid}, which serves the file system in {}, was stopped and stands still, so it does not answer; \
         let it go on: kill -CONT {pid}, or end it: tidefs down", directory.display()
    )]
    StandsStill { directory: PathBuf, pid: i32 },
    /// What is wrong with the question, and with which item.
    #[error("{0}")]
    Unplannable(String),
    /// The running file system was asked and said why not.
    #[error("{0}")]
    Refused(String),
    /// The nodes could not be observed; the text says so.
    #[error("{0}")]
    NodesUnseen(String),
    #[error("the file system did not start within {seconds} s; see {}", log.display())]
    StartTimedOut { seconds: u64, log: PathBuf },
    #[error(
        "the mount has not been taken over within {seconds} s; the process that is to go on with it still tries, and ends if \
         it does not get it; see {}, and for the mount: tidefs status", log.display()
    )]
    StillStarting { seconds: u64, log: PathBuf },
    #[error("the file system ended while it started; see {}", log.display())]
    StartDied { log: PathBuf },
    #[error("could not stop everything: {left} processes remain; see: ps")]
    Remaining { left: usize },
    #[error("not everything has ended; end it by hand: {}", .0.join("; "))]
    LivesOn(Vec<String>),

    #[error("the state directory {} belongs to somebody else or lets others write; choose another with --state", .0.display())]
    StateForeign(PathBuf),
    #[error("cannot use {} as state directory: {cause}; choose another with --state", path.display())]
    StateUnusable { path: PathBuf, cause: io::Error },
    #[error(
        "the state directory {} has too long a name: the sockets in it would need {needed} bytes \
         and may have {most}; choose a shorter one with --state", path.display()
    )]
    StateTooLong { path: PathBuf, needed: usize, most: usize },
    #[error("{} is not readable as a record of a file system; where none runs, remove its directory", .0.display())]
    RecordDamaged(PathBuf),

    #[error("no report can be written to {}: {cause}; choose another directory with --report", path.display())]
    ReportUnusable { path: PathBuf, cause: std::io::Error },
    #[error("no command {0}; check its name and $PATH")]
    CommandNotFound(String),
    #[error("cannot run {command}: {cause}")]
    CommandNotRun { command: String, cause: io::Error },
    /// A signal came before the command was started.
    #[error("stopped by signal {0} before the command was started")]
    Interrupted(i32),
}

/// Exit status of a failure of `tidefs` itself.
pub const FAILED: u8 = 1;
/// Exit status of wrong usage.
pub const MISUSED: u8 = 2;
/// Exit status of a run whose command succeeded while nodes that died took files with them
/// (`EX_IOERR` of sysexits.h).
pub const LOST: u8 = 74;
/// Exit status that says by which signal a process ended, as shells give it.
pub fn signalled(signal: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(127))
}

impl Failure {
    /// As shells do: 127 and 126 for a command that is not there or cannot be run.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::CommandNotFound(_) => 127,
            Failure::CommandNotRun { .. } => 126,
            Failure::NothingToScale
            | Failure::NothingToServe
            | Failure::NothingToLendTo { .. }
            | Failure::ListenEverywhere { .. }
            | Failure::HostsOfUnknownMemory
            | Failure::NowhereForHosts
            | Failure::NoProvision(_)
            | Failure::NoSatellites { .. }
            | Failure::TooManyHosts { .. }
            | Failure::NoAllocation
            | Failure::NotOnANodeOfTheJob { .. }
            | Failure::MoreThanTheJobHas { .. }
            | Failure::JobOfLittleMemory { .. }
            | Failure::MoreHostsRequired { .. }
            | Failure::TooMuchMemory { .. }
            | Failure::Contradiction(_)
            | Failure::WithoutEffect(_)
            | Failure::Unplannable(_) => MISUSED,
            Failure::Interrupted(signal) => signalled(*signal),
            _ => FAILED,
        }
    }
}

fn lines(absent: &[(String, String)]) -> String {
    let lines: Vec<_> = absent.iter().map(|(host, why)| format!("  {host}: {why}")).collect();
    lines.join("\n")
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}
