//! The words and flags of the command line. What they mean is in `commands`.

pub mod hint;
pub mod hosts;
pub mod join;
pub mod lend;
pub mod metrics;
pub mod number;
pub mod placement;
pub mod planning;
pub mod provision;
pub mod running;
pub mod satellite;
pub mod serving;
pub mod simulation;
pub mod stage;
pub mod whereabouts;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tidefs_model::ByteSize;

use crate::elasticity::{Elasticity, NodeRange};
use join::Join;
use lend::Lend;
use metrics::Metrics;
use running::{Down, Drain, Exec, Fsck, List, Logs, Mount, Scale, Status, Top, Umount, Workflow};
use serving::Serving;

/// An in-memory POSIX file system for workflows, over the pooled memory of a set of nodes.
#[derive(Debug, Parser)]
#[command(name = "tidefs", version = crate::version::line(), max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Example:\n  tidefs run -- sh -c 'cp -r input \"$TIDEFS_MOUNT\" && make -C \
                        \"$TIDEFS_MOUNT\"/input'\n\n\
                        /etc/tidefs.toml and ~/.config/tidefs.toml may set options once for all: \
                        `tidefs doctor`\nsays what they set. `tidefs --version --json` says what this \
                        program is."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    /// Say more about what is done; twice for every step
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,

    /// Directory that keeps the addresses, the secret and the log of running file systems
    /// [default: a directory of the user's own]
    #[arg(long, value_name = "DIR", env = "TIDEFS_STATE", global = true, hide_env_values = true)]
    #[arg(value_parser = OsStringValueParser::new().try_map(named_directory))]
    pub state: Option<PathBuf>,
}

/// Not the empty text of a variable that was set to nothing.
fn named_directory(text: OsString) -> Result<PathBuf, &'static str> {
    match text.is_empty() {
        true => Err("no directory; unset TIDEFS_STATE, or give one"),
        false => Ok(text.into()),
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount, run a command, report and clean up; exits with the command's status
    #[command(after_help = "Examples:\n  \
        tidefs run -- make -j8\n  \
        tidefs run --nodes 4 --node-memory 2GiB --mount ./fast -- ./workflow.sh\n  \
        tidefs run --nodes 1..6 --node-memory 1GiB --report ./report -- snakemake -c8\n\n\
        The command finds the mount point in $TIDEFS_MOUNT.")]
    Run(Run),
    /// Start a file system and keep it running
    #[command(after_help = "Examples:\n  \
        tidefs up --nodes 3 --node-memory 1GiB --mount /tmp/fast\n  \
        tidefs up --hosts hosts --mount /tmp/fast\n\n\
        A list of hosts, this one among them; the others are reached by ssh:\n  \
        head\n  \
        me@big memory=8GiB\n  \
        n[01-16]")]
    Up(Up),
    /// Stop the file system that `up` started; what it held is gone
    #[command(after_help = "Example:\n  tidefs down")]
    Down(Down),
    /// Mount a running file system at one more place
    #[command(after_help = "Example:\n  mkdir second && tidefs mount second")]
    Mount(Mount),
    /// Take away one mount of a running file system
    #[command(after_help = "Example:\n  tidefs umount second")]
    Umount(Umount),
    /// Show nodes, usage, partitions and mounts of a running file system
    #[command(after_help = "Example:\n  tidefs status --json | jq '.nodes[].memory_used_bytes'")]
    Status(Status),
    /// List the file systems that run on this machine
    #[command(after_help = "Example:\n  tidefs list --json | jq -r '.file_systems[].state'\n\n\
        Those of this user, and where those of other users are mounted.")]
    List(List),
    /// Check a running file system for what killed mounts left, and for damage
    #[command(after_help = "Example:\n  tidefs fsck --repair\n\n\
        Exits with 0 when nothing is left to complain of, 1 when something is, 2 for wrong usage.")]
    Fsck(Fsck),
    /// Have another number of nodes, within the range that the file system was started with
    #[command(after_help = "Example:\n  tidefs scale 4")]
    Scale(Scale),
    /// Move everything off a node and remove it
    #[command(after_help = "Example:\n  tidefs drain 2\n\n\
        A node is named by its number or endpoint in `tidefs status`, or by its id.")]
    Drain(Drain),
    /// Tell a running file system of the workflow that its forecast follows, or show how far that is
    #[command(after_help = "Examples:\n  \
        tidefs workflow --graph workflow.json\n  \
        echo '{\"started\": \"align-7\"}' | tidefs workflow --news -\n\n\
        A graph is WfFormat, or lines of JSON. Each line is one of:\n  \
        {\"task\": {\"id\": \"a\", \"kind\": \"align\", \"reads\": [\"x\"], \"writes\": [\"y\"], \"temporary\": [\"y\"],\n    \
        \"after\": [], \"bytes_most\": 2000000, \"seconds\": 60}}\n  \
        {\"file\": {\"name\": \"x\", \"bytes\": 1000}}   {\"target\": \"y\"}   {\"slots\": 8}\n\
        and news of it are, besides:\n  \
        {\"started\": \"a\"}   {\"failed\": \"a\"}   {\"removed\": \"y\"}\n  \
        {\"finished\": {\"id\": \"a\", \"files\": [{\"name\": \"y\", \"bytes\": 700}]}}\n\n\
        What was told may be told again. News that name what the graph does not have are refused.")]
    Workflow(Workflow),
    /// Run a command on other hosts of a file system that was started with --hosts
    #[command(after_help = "Examples:\n  \
        tidefs exec --host n2 -- hostname\n  \
        tidefs exec --all -- sh -c 'ls \"$TIDEFS_MOUNT\"'\n\n\
        It runs in the same directory as this, where there is one, or else in the mount, with nothing on its\n\
        standard input. Signals go to all of them. Exits with the first status in the list that is not 0.")]
    Exec(Exec),
    /// Show what a running file system and its hosts have said
    #[command(after_help = "Example:\n  tidefs logs n2")]
    Logs(Logs),
    /// Lend this machine's idle memory to a file system that was started with --listen
    #[command(after_help = "Example:\n  \
        tidefs lend --memory 4GiB --join 10.0.0.1:7400 --secret-file lend-secret\n\n\
        The file system keeps the secret in its state directory, in the file lend-secret. Ctrl-C gives\n\
        back what is held here, then ends; a second one ends at once, and what was left is lost.\n\n\
        The file system must trust this machine: whoever has it can learn the secrets of its nodes from\n\
        what they send here, and with them read and change what is on all nodes that it reaches, except\n\
        that bytes of files that are sealed cannot be read.")]
    Lend(Lend),
    /// Have this host belong to a file system that runs elsewhere: with a node, and with a mount
    #[command(after_help = "Examples:\n  \
        tidefs join 10.0.0.1:7400 --secret-file join-secret --mount /tmp/fast\n  \
        tidefs join 10.0.0.1:7400 --secret-file join-secret --memory 8GiB\n\n\
        The file system was started with --listen, and keeps the secret in its state directory, in the file\n\
        join-secret; whoever has it can read and change everything. Nothing else has to be shared. While this\n\
        runs, status, mount, umount, scale, drain and fsck work on this host as well. Ctrl-C has the host\n\
        leave: what lies here goes to other nodes first; a second one ends at once, and that is lost. SIGUSR1 has it\n\
        leave as well, as before the end of a job's time (sbatch --signal=B:USR1@120).")]
    Join(Join),
    /// Show or set where the bytes of new files in a directory go: to the node of the host that writes
    /// them, or to all nodes
    #[command(after_help = "Examples:\n  \
        tidefs placement fast/scratch local\n  \
        tidefs placement fast/scratch\n\n\
        Directories that are made in it later inherit it. The same is the extended attribute\n\
        user.tidefs.placement: setfattr -n user.tidefs.placement -v local fast/scratch")]
    Placement(placement::Placement),
    /// Show on which hosts and nodes the bytes of files lie, and how many
    #[command(after_help = "Examples:\n  \
        tidefs where fast/input.fits\n  \
        tidefs where --json fast/input.fits | jq -r '.files[0].parts[0].host'\n\n\
        The part with most bytes comes first. Holes are not counted. The same is the extended attribute\n\
        tidefs.where, which is not listed and cannot be set: getfattr -n tidefs.where fast/input.fits")]
    Where(whereabouts::Where),
    /// Copy files between a disk or parallel file system and a mount, several at a time
    #[command(after_help = "Examples:\n  \
        tidefs stage in /data/images input\n  \
        tidefs stage out 'results/**/*.csv' /data/tables\n\n\
        A directory becomes DEST with what is in it. A file gets its name when it is whole, so one that is\n\
        there with the size and time of its source is not copied again: a transfer that was cut short\n\
        goes on when it is repeated. Modes, times, links, holes and extended attributes are kept, and\n\
        owners by root. Exits with 1 where something was not copied, and names it.")]
    Stage(stage::Stage),
    /// Watch nodes, usage and what the manager does
    #[command(after_help = "Examples:\n  \
        tidefs top\n  \
        tidefs top --by command")]
    Top(Top),
    /// Plan who holds what when nodes come and go; moves nothing
    #[command(after_help = "Examples:\n  \
        tidefs plan --nodes 8 --commission 2\n  \
        tidefs plan inventory.json --leave node-3 --deadline 60 --json\n  \
        tidefs plan bench --servers 128 --commission 1920 --buckets 8192 --strategy ldt\n\n\
        An inventory lists nodes and partitions; partition p is entry p:\n  \
        {\"nodes\": [{\"name\": \"a\", \"class\": \"own\", \"memory_capacity_bytes\": 4294967296,\n    \
        \"bandwidth_bytes_per_second\": 1.25e9, \"leaves\": false}],\n   \
        \"partitions\": [{\"node\": \"a\", \"bytes\": 1048576, \"load\": 2.5}]}\n\n\
        They may be the buckets of any service. \"metadata_partitions\": 1024 beside them says that the\n\
        first 1,024 hold metadata, as in this file system, and lie on own nodes only.")]
    Plan(planning::Plan),
    /// Simulate a workflow under several policies; starts nothing
    #[command(after_help = "Examples:\n  \
        tidefs sim --workflow montage --policy cso+csi,nso+asi --nodes 16..64 --suspend\n  \
        tidefs sim --workflow workflow.json --policy aso --nodes 2..8 --node-memory 4GiB --json")]
    Sim(simulation::Sim),
    /// Say what this machine lacks and the command that fixes it
    #[command(after_help = "Example:\n  tidefs doctor")]
    Doctor(Doctor),
    /// Have this host belong to a file system that reached it and gives its order on standard input.
    #[command(hide = true)]
    Agent,
    /// Run a command for `exec` on another host, which gives its order on standard input.
    #[command(hide = true)]
    Task,
    /// Keep a file system running; started by `up` with its order on standard input.
    #[command(hide = true)]
    Daemon,
    /// Hold one more mount of a cluster; started by `mount` with its order on standard input.
    #[command(hide = true)]
    Holder,
    /// Run the program that provides hosts; started by the process that has the file system, with its order on standard
    /// input.
    #[command(hide = true)]
    ProvisionRunner,
    /// Have a host come as a job of Slurm, or take it away; a provision command.
    #[command(hide = true)]
    Satellite(satellite::Satellite),
    /// Write the manual pages and the completions for shells; packages have them.
    #[command(hide = true)]
    Pages(Pages),
    /// Decide about the nodes; started by the process that owns them.
    #[command(hide = true)]
    Manager {
        /// What it says goes to a log that is kept
        #[arg(long)]
        kept: bool,
    },
}

/// What `run` and `up` start.
#[derive(Clone, Debug, Args)]
pub struct StorageOptions {
    /// Storage nodes (Valkey processes), starting with MIN; without it one on each of the --hosts or
    /// --host-commands, or the file system lives in this process's memory
    #[arg(long, value_name = "N | MIN..MAX")]
    pub nodes: Option<NodeRange>,

    #[command(flatten)]
    pub hosts: hosts::Hosts,

    /// Hosts that share this one's state directory and that the nodes run on, in turn: a line each, NAME
    /// ADDRESS COMMAND..., where COMMAND is put before a program to start it there
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    pub host_commands: Option<PathBuf>,

    /// Memory that each node offers, such as 256MiB or 4GiB; must be given with --host-commands
    /// [default: a share of what is free]
    #[arg(long, value_name = "SIZE", value_parser = node_memory)]
    pub node_memory: Option<ByteSize>,

    /// Of each node's memory, what files' bytes may not fill: deletes, truncates, names and directories
    /// then find room while writers wait [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = head_room)]
    pub head_room: Option<ByteSize>,

    /// The server program that nodes run, whatever its version is [default: $TIDEFS_SERVER, or a Valkey 9 or
    /// later that set-up built or that is on the search path, or an older server, with a warning]
    #[arg(long, value_name = "PATH")]
    pub server: Option<PathBuf>,

    /// When to encrypt what nodes hold of files' bytes: always, where others may lend nodes, or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Sealed::Victims)]
    pub sealed: Sealed,

    /// Where to mount; made, and removed at the end, where it does not exist
    #[arg(long, value_name = "DIR", default_value = "./tide")]
    pub mount: PathBuf,

    /// Let lenders join at this address and port (`tidefs lend --join`); nodes listen there too, on
    /// ports of their own; port 0 chooses one. Let in only lenders that you trust: they can learn the
    /// secrets of the nodes (`tidefs lend --help`) [default: this machine only, and no lenders]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// How nodes are reached over a network, and how they reach each other: by TLS with certificates
    /// that the file system makes for itself, or in clear by whoever is on a network that is trusted
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Network::Encrypted)]
    pub network: Network,

    #[command(flatten)]
    pub metrics: Metrics,

    #[command(flatten)]
    pub serving: Serving,

    #[command(flatten)]
    pub elasticity: Elasticity,

    #[command(flatten)]
    pub provision: provision::Options,

    /// Delete each file that a task of the workflow wrote once all tasks that read it have ended, except
    /// what was asked for; `tidefs workflow` or an engine's plug-in tells of the tasks
    #[arg(long, help_heading = "Growing and shrinking")]
    pub delete_dead: bool,
}

/// How nodes are reached over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Network {
    Encrypted,
    Trusted,
}

/// When stripes are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sealed {
    Always,
    Victims,
    Never,
}

impl Sealed {
    /// `lenders`: nodes may be other people's.
    pub fn is_on(self, lenders: bool) -> bool {
        match self {
            Sealed::Always => true,
            Sealed::Victims => lenders,
            Sealed::Never => false,
        }
    }
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub storage: StorageOptions,

    /// Write report.json, report.html and timeline.svg there; I/O errors and stalls are those of the
    /// run's own mount, not of `tidefs mount`
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,

    /// Leave out the summary at the end
    #[arg(short, long)]
    pub quiet: bool,

    #[command(flatten)]
    pub staging: stage::Around,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    pub storage: StorageOptions,
}

#[derive(Debug, Args)]
pub struct Pages {
    /// The directory of shared data that they go to, such as /usr/share
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Check each host of a list over SSH instead, one a line: HOST, USER@HOST or a range such as
    /// n[01-16]; TIDEFS_SSH names another program than ssh
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,

    /// Check as well that this program, for --provision-command, can be run
    #[arg(long, value_name = "PROGRAM", conflicts_with = "hosts")]
    pub provision_command: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Below this a server has no room beside its own bookkeeping.
pub const NODE_MEMORY_MIN: ByteSize = ByteSize::mib(32);

/// What one batch of metadata and the buffers of those who send it take.
const HEAD_ROOM_MIN: ByteSize = ByteSize::mib(1);

fn head_room(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>().map_err(|error| error.to_string())? {
        size if size < HEAD_ROOM_MIN => Err(format!(
            "{size} is too little for metadata to find room on a node full of data; give at least \
             {HEAD_ROOM_MIN}"
        )),
        size => Ok(size),
    }
}

fn node_memory(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>().map_err(|error| error.to_string())?;
    if size < NODE_MEMORY_MIN {
        return Err(format!(
            "{size} a node is too little; give at least {NODE_MEMORY_MIN}: a server alone takes up to \
             5 MiB, and 8 MiB are kept free for deletes and metadata unless --head-room says otherwise"
        ));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::serving::Rings;
    use super::*;
    use clap::CommandFactory;

    fn run_of(words: &[&str]) -> Result<Run, clap::Error> {
        let words = ["tidefs", "run"].iter().chain(words);
        match Arguments::try_parse_from(words)?.command {
            Command::Run(run) => Ok(run),
            other => panic!("{other:?} is not run"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in Arguments::command().get_subcommands().filter(|it| !it.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
        }
    }

    #[test]
    fn run_takes_nodes_memory_and_a_command() {
        let run = run_of(&["--nodes", "3", "--node-memory", "512MiB", "--", "ls", "-l"]).unwrap();
        assert_eq!(run.storage.nodes, Some(NodeRange { min: 3, max: 3 }));
        assert_eq!(run.storage.node_memory, Some(ByteSize::mib(512)));
        assert_eq!(run.command, ["ls", "-l"]);
        assert_eq!(run.storage.mount, PathBuf::from("./tide"));
    }

    #[test]
    fn stripes_are_sealed_when_asked_for_or_where_others_lend() {
        let sealed =
            |words: &[&str]| run_of(&[words, &["--", "true"]].concat()).unwrap().storage.sealed;
        assert_eq!(sealed(&[]), Sealed::Victims);
        let on = |when: &str| {
            let sealed = sealed(&["--sealed", when]);
            (sealed.is_on(false), sealed.is_on(true))
        };
        assert_eq!(on("always"), (true, true));
        assert_eq!(on("victims"), (false, true));
        assert_eq!(on("never"), (false, false));
    }

    #[test]
    fn no_mount_spins_or_uses_rings_unless_it_is_told_to() {
        let serving = |words: &[&str]| run_of(words).unwrap().storage.serving;
        let plain = serving(&["--", "true"]);
        assert_eq!(plain, Serving { spin: false, rings: Rings::Off });
        assert!(serving(&["--spin", "--", "true"]).spin);
        assert_eq!(serving(&["--rings", "auto", "--", "true"]).rings, Rings::Auto);
        let words = ["tidefs", "mount", "--spin", "--rings", "on", "second"];
        let mount = Arguments::try_parse_from(words).unwrap();
        let wanted = Serving { spin: true, rings: Rings::On };
        assert!(
            matches!(mount.command, Command::Mount(Mount { serving, .. }) if serving == wanted)
        );
    }

    #[test]
    fn wrong_usage_is_refused() {
        for words in [
            &["--nodes", "0", "--", "true"][..],
            &["--nodes", "65", "--", "true"],
            &["--nodes", "4..1", "--", "true"],
            &["--policy", "nso+aso", "--nodes", "1..4", "--", "true"],
            &["--nodes", "many", "--", "true"],
            &["--sealed", "perhaps", "--", "true"],
            &["--node-memory", "1MiB", "--", "true"],
            &["--node-memory", "lots", "--", "true"],
            &["--policy", "sometimes", "--nodes", "1..4", "--", "true"],
            &["--quiet-period", "soon", "--nodes", "1..4", "--", "true"],
            &[],
        ] {
            let error = run_of(words).expect_err("refused");
            assert_eq!(error.exit_code(), 2, "{words:?}");
        }
    }
}
