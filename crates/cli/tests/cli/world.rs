//! A place for one test: folders to work in, a way to run `tidefs` there, and a look at what is
//! left afterwards.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Marks every process of a test, since children inherit it.
const MARK: &str = "TIDEFS_TEST_WORLD";
/// No command of a test takes nearly as long.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// An ordinary user: `nobody` on every Debian machine.
const USER: u32 = 65_534;

pub struct World {
    directory: TempDir,
    user: Option<u32>,
    before: BTreeSet<PathBuf>,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// As a shell gives it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A command that runs.
pub struct Running {
    pub child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// `false` when the caller of the tests leaves `what` out.
pub fn wanted(what: &str) -> bool {
    let without = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
    let left_out = without.split(',').any(|name| name == what);
    if left_out {
        eprintln!("left out, as TIDEFS_TEST_WITHOUT says: {what}");
    }
    !left_out
}

/// Whether a test that only root can carry out is to run.
///
/// # Panics
/// When nobody left it out and this is not root.
pub fn root_wanted() -> bool {
    let wanted = wanted("root");
    let root = rustix::process::geteuid().is_root();
    assert!(root || !wanted, "run tests as root, or set TIDEFS_TEST_WITHOUT=root");
    wanted
}

impl World {
    /// `None` when mounts are left out.
    pub fn new() -> Option<World> {
        wanted("fuse").then(|| World::of(None))
    }

    /// The same for a user other than root.
    pub fn of_ordinary_user() -> Option<World> {
        if !wanted("fuse") || !wanted("user") {
            return None;
        }
        let root = rustix::process::geteuid().is_root();
        Some(World::of(root.then_some(USER)))
    }

    fn of(user: Option<u32>) -> World {
        let directory = tempfile::Builder::new().prefix("tw").tempdir_in("/tmp").unwrap();
        // The binary may lie where this user cannot look.
        let original = std::env::var_os("TIDEFS_BINARY");
        let original = original.unwrap_or_else(|| env!("CARGO_BIN_EXE_tidefs").into());
        copy(Path::new(&original), &directory.path().join("tidefs"));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["work", "runtime", "state", "tmp", "out"] {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            chown(&path, user, user).unwrap();
        }
        let mut world = World { directory, user, before: BTreeSet::new() };
        world.note();
        world
    }

    /// Gives the world a server of its own, since the machine's may lie where this user cannot
    /// look.
    pub fn has_server(&self) {
        let found = tidefs_valkey::find_server(|name| std::env::var_os(name));
        let found = found.expect("a server; TIDEFS_TEST_WITHOUT=server leaves these tests out");
        copy(&found, &self.server());
    }

    /// The same with one kind of server, `valkey` or `redis`.
    pub fn has_server_named(&self, kind: &str) {
        let program = format!("{kind}-server");
        let cache = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(cache);
        let folders = cache.map(|cache| cache.join("tidefs/bin")).into_iter();
        let folders = folders.chain([PathBuf::from("/usr/local/lib/tidefs/bin")]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = folders
            .chain(std::env::split_paths(&path))
            .map(|folder| folder.join(&program))
            .find(|path| path.is_file());
        let found = found.unwrap_or_else(|| {
            panic!("{program} is missing: run scripts/setup, or set TIDEFS_TEST_WITHOUT={kind}")
        });
        copy(&found, &self.server());
    }

    /// A program that starts this world's server with other words before it.
    pub fn server_started_by(&self, words: &str) -> PathBuf {
        let path = self.directory.path().join("starter");
        let script = format!("#!/bin/sh\nexec {words} {} \"$@\"\n", self.server().display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn server(&self) -> PathBuf {
        self.directory.path().join("server")
    }

    /// What is there now belongs there.
    pub fn note(&mut self) {
        self.before = self.files();
    }

    /// Where commands run.
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub fn binary(&self) -> PathBuf {
        self.directory.path().join("tidefs")
    }

    /// What ends with the user's session.
    pub fn runtime(&self) -> PathBuf {
        self.directory.path().join("runtime")
    }

    /// The user's own base of state directories.
    pub fn base(&self) -> PathBuf {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.directory.path().join(format!("state/tidefs-{host}"))
    }

    /// Of the file system that `up` started there.
    pub fn up(&self) -> PathBuf {
        self.base().join("up")
    }

    /// `tidefs` with these words.
    pub fn tidefs<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Command {
        let mut command = self.command(self.binary());
        command.args(words);
        command
    }

    /// The same where no set-up has built a server. What one built for all is hidden by root, and only
    /// then.
    pub fn tidefs_without_servers(&self, words: &[&str]) -> Command {
        let mut command = self.command("/usr/bin/unshare");
        let hide = "/usr/bin/mount -t tmpfs tmpfs /usr/local/lib; exec \"$@\"";
        match rustix::process::geteuid().is_root() {
            true => command.args(["--mount", "/bin/sh", "-c", hide, "sh"]).arg(self.binary()),
            false => {
                command = self.command(self.binary());
                &mut command
            }
        };
        command.args(words).env_remove("TIDEFS_SERVER");
        command.env("XDG_CACHE_HOME", "/nowhere").env("HOME", "/nowhere");
        command
    }

    /// Any program, in the folder and with the rights of this world.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_of(self.user, program)
    }

    /// The same with the rights of whoever runs the tests.
    pub fn command_of_root(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_of(None, program)
    }

    fn command_of(&self, user: Option<u32>, program: impl AsRef<OsStr>) -> Command {
        let mut command = match user {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("/usr/bin/setpriv");
                let id = user.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
                command.arg(program);
                command
            }
        };
        command
            .current_dir(self.work())
            .env_remove("TIDEFS_STATE")
            .env_remove("TIDEFS_MOUNT")
            .env_remove("_TIDEFS_RUN")
            .env("TIDEFS_CONFIG", "")
            .env(MARK, self.directory.path())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .env("TMPDIR", self.directory.path().join("tmp"))
            .stdin(Stdio::null());
        if self.server().exists() {
            command.env("TIDEFS_SERVER", self.server());
        }
        command
    }

    /// Runs `tidefs` to its end.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Ran {
        self.start(&mut self.tidefs(words)).end()
    }

    /// Runs a shell script, with the rights of this world; others may not look into its mounts.
    pub fn shell(&self, script: &str) -> Ran {
        self.start(self.command("/bin/sh").args(["-c", script])).end()
    }

    /// Runs `tidefs run` with options and a shell script.
    pub fn run_script(&self, options: &[&str], script: &str) -> Ran {
        let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
        self.run(words)
    }

    /// Starts a command. What it says goes to files, so that nobody who keeps them open holds
    /// the test up.
    pub fn start(&self, command: &mut Command) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = |kind: &str| self.directory.path().join("out").join(format!("{number}.{kind}"));
        let (stdout, stderr) = (path("stdout"), path("stderr"));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let child = command.spawn().expect("started");
        Running { child, stdout, stderr }
    }

    /// Everything is as it was: no file, no mount, no process.
    pub fn is_as_before(&self) {
        assert_eq!(self.mounts(), Vec::<String>::new(), "mounts are left");
        let start = Instant::now();
        let mut left = self.processes();
        // A killed process is in the table until the kernel has taken it apart.
        while !left.is_empty() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
            left = self.processes();
        }
        let left: Vec<_> = left.iter().map(|&pid| describe(pid)).collect();
        assert_eq!(left, Vec::<String>::new(), "processes are left");
        assert_eq!(self.files(), self.before, "files are left, or gone");
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        for name in ["work", "runtime", "state", "tmp"] {
            collect(&self.directory.path().join(name), &mut found);
        }
        found
    }

    fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = self.directory.path().to_str().unwrap();
        table.lines().filter(|line| line.contains(here)).map(str::to_owned).collect()
    }

    /// Marked processes, and those that name the folder; nodes may have an environment of their
    /// own.
    fn processes(&self) -> Vec<i32> {
        let here = self.directory.path().to_str().unwrap();
        let holds = |bytes: std::io::Result<Vec<u8>>| {
            bytes.is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(here))
        };
        let numbers = fs::read_dir("/proc").unwrap();
        let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers
            .filter(|&pid: &i32| pid != std::process::id() as i32)
            .filter(|pid| {
                let file = |name: &str| fs::read(format!("/proc/{pid}/{name}"));
                let folder = fs::read_link(format!("/proc/{pid}/cwd"));
                holds(file("environ"))
                    || holds(file("cmdline"))
                    || folder.is_ok_and(|folder| folder.starts_with(here))
            })
            .collect()
    }
}

/// A failed test leaves nothing either.
impl Drop for World {
    fn drop(&mut self) {
        for pid in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        for line in self.mounts() {
            let place = line.split(' ').nth(4).unwrap_or_default();
            let _ = Command::new("fusermount3").args(["-u", "-z", "-q", place]).status();
        }
    }
}

impl Running {
    pub fn send(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the command has said `text` on standard output.
    pub fn says(&mut self, text: &str) -> String {
        self.waits_for(text, self.stdout.clone())
    }

    /// The same on standard error.
    pub fn notes(&mut self, text: &str) -> String {
        self.waits_for(text, self.stderr.clone())
    }

    fn waits_for(&mut self, text: &str, place: PathBuf) -> String {
        let start = Instant::now();
        loop {
            let said = fs::read_to_string(&place).unwrap();
            if said.contains(text) {
                return said;
            }
            let ended = self.child.try_wait().unwrap();
            let errors = fs::read_to_string(&self.stderr).unwrap();
            assert!(ended.is_none(), "ended without saying {text:?}: {said}{errors}");
            assert!(start.elapsed() < WAIT_MAX, "does not say {text:?}: {said}{errors}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ran {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > WAIT_MAX {
                let _ = self.child.kill();
                panic!("does not end: {}", fs::read_to_string(&self.stderr).unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ran {
            status: code.expect("a code or a signal"),
            stdout: fs::read_to_string(&self.stdout).unwrap(),
            stderr: fs::read_to_string(&self.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// It did what it was asked to.
    pub fn succeeded(self) -> Ran {
        self.ended_with(0)
    }

    pub fn ended_with(self, status: i32) -> Ran {
        assert_eq!(self.status, status, "{}{}", self.stdout, self.stderr);
        self
    }

    /// It ended with `status` and said all of `parts` on standard error.
    pub fn refused(self, status: i32, parts: &[&str]) -> Ran {
        let ran = self.ended_with(status);
        for part in parts {
            assert!(ran.stderr.contains(part), "no {part:?} in {}", ran.stderr);
        }
        ran
    }
}

/// Another process makes the copy: a program that this one has open for writing while another test
/// starts a process could not be executed.
fn copy(source: &Path, target: &Path) {
    let copied = Command::new("cp").arg("-L").arg(source).arg(target).status();
    assert!(copied.unwrap().success(), "{} cannot be copied", source.display());
}

fn collect(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        found.insert(entry.path());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), found);
        }
    }
}

fn describe(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
}
