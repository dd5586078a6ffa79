//! What `doctor` looks at, one function each. Nothing here changes the machine.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tidefs_model::ByteSize;
use tidefs_valkey::PrivateNetwork;

use crate::failure::Failure;
use crate::finding::Finding;
use crate::limits;
use crate::memory::Memory;
use crate::preparation::FUSE_DEVICE;
use crate::provision::usable;
use crate::scarcity::Score;
use crate::settings::Settings;
use crate::state::{Base, LONGEST_NAME, Paths, room};
use crate::storage::choose_server;

pub fn all(state: Option<&Path>) -> Vec<Finding> {
    vec![
        kernel(),
        device(),
        fusermount_program(),
        other_users(),
        direct(),
        rings(),
        hand_over(),
        server(),
        own_network(),
        memory(),
        scarcity(),
        open_files(),
        state_directory(state),
        settings(),
    ]
}

/// The program that is to provide hosts.
pub fn provision(program: &Path) -> Finding {
    const SUBJECT: &str = "provision command";
    match usable(program, std::env::var_os("PATH").as_deref()) {
        Ok(path) => Finding::good(SUBJECT, format!("{} can be run", path.display())),
        Err(wrong) => {
            let said = wrong.to_string();
            let (detail, fix) = said.split_once("; ").unwrap_or((&said, "name another program"));
            Finding::missing(SUBJECT, detail, fix)
        }
    }
}

fn settings() -> Finding {
    const SUBJECT: &str = "settings";
    match Settings::read().said() {
        Ok(said) => {
            Finding::good(SUBJECT, said.unwrap_or_else(|| "none; no file sets any".to_owned()))
        }
        Err(wrong) => Finding::missing(SUBJECT, wrong, "put that line right, or remove it"),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn kernel() -> Finding {
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match kinds.lines().any(|line| line.split_whitespace().last() == Some("fuse")) {
        true => Finding::good("kernel", "knows FUSE"),
        false => Finding::missing("kernel", "does not know FUSE", "modprobe fuse  (as root)"),
    }
}

fn device() -> Finding {
    match fs::File::options().read(true).write(true).open(FUSE_DEVICE) {
        Ok(_) => Finding::good(FUSE_DEVICE, "can be opened"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Finding::missing(FUSE_DEVICE, "you may not open it", "chmod 666 /dev/fuse  (as root)")
        }
        Err(error) => Finding::missing(
            FUSE_DEVICE,
            error.to_string(),
            "modprobe fuse  (as root; a container needs --device /dev/fuse)",
        ),
    }
}

fn fusermount_program() -> Finding {
    const FIX: &str = "apt-get install fuse3  (as root)";
    match tidefs_fuse::fusermount_path() {
        Some(path) => Finding::good("fusermount3", path.display().to_string()),
        None if is_root() => {
            Finding::limited("fusermount3", "not found; other users cannot mount", Some(FIX))
        }
        None => Finding::missing("fusermount3", "not found; you cannot mount", FIX),
    }
}

fn other_users() -> Finding {
    let configured = fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    match is_root() || configured {
        true => Finding::good("other users", "may be let into a mount"),
        false => Finding::limited(
            "other users",
            "cannot be let into your mounts",
            Some("echo user_allow_other >> /etc/fuse.conf  (as root)"),
        ),
    }
}

/// Not by the kernel's version: it says what it would offer a mount that is made now.
fn rings() -> Finding {
    const SUBJECT: &str = "rings";
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    match fs::read_to_string(SWITCH) {
        Ok(switch) if switch.trim() == "Y" => {
            Finding::good(SUBJECT, "offered; a mount with --rings auto uses them")
        }
        Ok(_) => Finding::limited(
            SUBJECT,
            "switched off; --rings has nothing to use",
            Some("echo Y > /sys/module/fuse/parameters/enable_uring  (as root)"),
        ),
        Err(_) => Finding::limited(SUBJECT, "not in this kernel (Linux 6.14 has them)", None),
    }
}

fn hand_over() -> Finding {
    match tidefs_fuse::kernel_sends_again() {
        true => Finding::good("hand-over", "a running mount can be taken over by another process"),
        false => Finding::limited(
            "hand-over",
            "not in this kernel (Linux 6.9 has it); a mount ends with the process that serves it, and to \
             replace the program it has to be unmounted",
            None,
        ),
    }
}

fn direct() -> Finding {
    match tidefs_fuse::passthrough_available() {
        true => Finding::good("passthrough", "the kernel can serve files of the embedded store"),
        false => Finding::limited(
            "passthrough",
            "not here; files of the embedded store are served by tidefs, at about half the speed \
             (it needs Linux 6.9 and root)",
            None,
        ),
    }
}

fn server() -> Finding {
    const FIX_OLD: &str = "make setup  (in Tidefs's source)";
    const FIX: &str = "make setup  (in Tidefs's source; or apt-get install redis-server, as root)";
    match choose_server(None) {
        Ok(server) => match (server.warning(), version(&server.path)) {
            (Some(warning), _) => Finding::limited("server", warning, Some(FIX_OLD)),
            (None, Some(version)) => server_of(&server.path, &version),
            (None, None) => Finding::missing("server", format!("{server} does not run"), FIX),
        },
        Err(error) => Finding::missing("server", error.to_string(), FIX),
    }
}

/// From its words to the name and version, such as `Valkey 9.1.2` and `jemalloc-5.3.0`.
fn server_of(path: &Path, words: &str) -> Finding {
    let word = |start: &str| words.split_whitespace().find_map(|word| word.strip_prefix(start));
    let version = word("v=").unwrap_or("of unknown version");
    let allocator = word("malloc=").unwrap_or("unknown");
    let name = words.split_whitespace().next().unwrap_or_default();
    let detail = format!("{name} {version} with {allocator} ({})", path.display());
    // Up to 5.3.0 a value of 1 MiB is kept in 1.25 MiB.
    if allocator.starts_with("jemalloc-") && allocator >= "jemalloc-5.3.1" {
        return Finding::good("server", detail);
    }
    let detail = format!("{detail}; this allocator may keep a stripe of 1 MiB in 1.25 MiB");
    Finding::limited("server", detail, Some("make setup  (in Tidefs's source)"))
}

fn version(server: &Path) -> Option<String> {
    let said = std::process::Command::new(server).arg("--version").output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}

/// Made and given up again.
fn own_network() -> Finding {
    const SUBJECT: &str = "network of nodes";
    match PrivateNetwork::make() {
        Ok(_) => Finding::good(
            SUBJECT,
            "nodes that only this machine uses have one to themselves, which no other user reaches",
        ),
        Err(error) => Finding::limited(
            SUBJECT,
            format!(
                "nodes use the machine's loopback, where other users can take all their connections \
                 (a network name space cannot be made: {error})"
            ),
            Some("let users make name spaces: sysctl user.max_user_namespaces=10000  (as root)"),
        ),
    }
}

fn memory() -> Finding {
    let memory = Memory::of_this_machine();
    let detail = format!("{} of {} available", memory.available, memory.total);
    match memory.share(1, None) {
        Ok(_) => Finding::good("memory", detail),
        Err(_) => Finding::missing("memory", detail, "end other programs"),
    }
}

/// Tried on this process, which ends soon.
fn scarcity() -> Finding {
    const SUBJECT: &str = "memory shortage";
    match Score::of_what_serves() {
        Ok(score) if score.is_lowered => Finding::good(
            SUBJECT,
            "nodes and mounts are ended last, the command of a run before them",
        ),
        Ok(_) => Finding::limited(
            SUBJECT,
            "nodes and mounts cannot be spared (that needs CAP_SYS_RESOURCE): the kernel ends a run's \
             command before them, and everything else as it is large",
            None,
        ),
        Err(error) => Finding::limited(SUBJECT, format!("nobody can be spared: {error}"), None),
    }
}

/// A thousand open files at once, each with what serves it.
const OPEN_FILES_MIN: u64 = 4096;

fn open_files() -> Finding {
    match limits::open_files().maximum {
        Some(most) if most < OPEN_FILES_MIN => Finding::limited(
            "open files",
            format!("at most {most} at once"),
            Some("echo '* hard nofile 65536' > /etc/security/limits.d/tidefs.conf  (as root)"),
        ),
        Some(most) => Finding::good("open files", format!("at most {most} at once")),
        None => Finding::good("open files", "no limit"),
    }
}

fn state_directory(state: Option<&Path>) -> Finding {
    const FIX: &str = "choose a directory of your own, with a short name: --state DIR";
    let usable = Base::named(state).and_then(|base| {
        base.check()?;
        Paths::new(base.path.join(LONGEST_NAME)).check_length()?;
        Ok::<_, Failure>(base.path)
    });
    let free = |path: &Path| path.ancestors().find_map(|above| room::free(above).ok());
    match usable {
        Ok(path) if free(&path).is_some_and(|free| free < room::PLENTY) => {
            let left = ByteSize(free(&path).unwrap_or_default());
            let detail = format!("{} has {left} left; nodes may not start", path.display());
            Finding::limited("state directory", detail, Some("make room there, or: --state DIR"))
        }
        Ok(path) => Finding::good("state directory", path.display().to_string()),
        Err(failure) => Finding::missing("state directory", failure.to_string(), FIX),
    }
}
