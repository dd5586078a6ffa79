//! Where a user's own base directory may lie.
//!
//! A file system outlives the session of whoever started it, so its directory is not in the session's:
//! that one is removed at logout. `/var/tmp` belongs to this machine and nobody clears it at a logout;
//! where somebody else has taken our name there, a place that only this user can write to is used. A home
//! may be seen by several machines, so a base there has the machine's name.

use std::ffi::OsString;
use std::fs::read_dir;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::base::Base;
use super::instance::Paths;
use super::origin::host_name;
use super::room;

/// Where the user wishes it, if that can be; or else the place where there is something, or the first where
/// one can be made. `variable` reads the environment.
pub fn own(variable: impl Fn(&str) -> Option<OsString>) -> Base {
    let user = rustix::process::geteuid().as_raw();
    let can_be =
        |base: &&Base| base.check().is_ok() && (base.path.exists() || can_be_made(base, user));
    if let Some(wished) = wished(&variable).as_ref().filter(can_be) {
        return wished.clone();
    }
    let places = usual(user, &variable);
    let is_used = |base: &&Base| read_dir(&base.path).is_ok_and(|mut in_it| in_it.next().is_some());
    let there = places.iter().filter(is_used).find(can_be);
    // Without any the first one is refused with the reason.
    there.or_else(|| places.iter().find(can_be)).unwrap_or(&places[0]).clone()
}

fn wished(variable: impl Fn(&str) -> Option<OsString>) -> Option<Base> {
    Some(Base { path: path(variable("XDG_STATE_HOME"))?.join(in_home()) }).filter(fits)
}

/// At least one.
fn usual(user: u32, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Base> {
    let shared = format!("tidefs-{user}");
    let home = path(variable("HOME")).map(|home| home.join(".local/state").join(in_home()));
    let places = [Path::new("/var/tmp").join(&shared)].into_iter().chain(home);
    let places = places.chain([Path::new("/tmp").join(shared)]);
    places.map(|path| Base { path }).filter(fits).collect()
}

fn path(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn in_home() -> String {
    format!("tidefs-{}", host_name())
}

/// The sockets in it have names that are short enough.
fn fits(base: &Base) -> bool {
    Paths::new(base.path.join(LONGEST_NAME)).check_length().is_ok()
}

/// Of an instance.
pub const LONGEST_NAME: &str = "run-0000000-00000";

/// With less on its disk a place is passed over.
const ROOM_MIN: u64 = 2 << 20;

/// This user may make it, there is room, and nobody else may put something else in its place.
fn can_be_made(base: &Base, user: u32) -> bool {
    let above =
        base.path.ancestors().skip(1).find_map(|above| Some((above, above.metadata().ok()?)));
    above.is_some_and(|(above, found)| {
        let writable = rustix::fs::access(above, rustix::fs::Access::WRITE_OK).is_ok();
        let (is_sticky, is_shared) = (found.mode() & 0o1000 != 0, found.mode() & 0o022 != 0);
        let is_safe = [user, 0].contains(&found.uid()) && (is_sticky || !is_shared);
        let has_room = room::free(above).is_ok_and(|free| free >= ROOM_MIN);
        found.is_dir() && writable && is_safe && has_room
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_base_is_where_nobody_else_can_take_it_away() {
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let with = |mode| {
            let set = fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode));
            set.unwrap();
            can_be_made(&Base { path: folder.path().join("state/tidefs") }, user)
        };
        assert!(with(0o700) && with(0o1777));
        assert!(!with(0o777) && !with(0o770), "others could rename what is in it");
        with(0o700);
    }

    #[test]
    fn one_that_is_there_is_found_again_whatever_could_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let variable = |name: &str| match name {
            "XDG_STATE_HOME" => Some(folder.path().join("wished").into()),
            "HOME" => Some(folder.path().join("home").into()),
            _ => None,
        };
        let wished = wished(variable).unwrap();
        assert_eq!(own(variable), wished);
        // What is in the way is nobody's reason to fail.
        fs::create_dir_all(wished.path.parent().unwrap()).unwrap();
        fs::write(&wished.path, "in the way").unwrap();
        assert_ne!(own(variable), wished);

        let usual = usual(rustix::process::geteuid().as_raw(), variable);
        let home = usual.iter().find(|base| base.path.starts_with(folder.path())).unwrap();
        let others_are_free = usual.iter().all(|base| base == home || !base.path.exists());
        fs::create_dir_all(home.path.join("run-1-00000")).unwrap();
        if others_are_free {
            assert_eq!(own(variable), *home);
        }
    }

    #[test]
    fn a_place_whose_sockets_would_have_too_long_names_is_passed_over() {
        let long = |_: &str| Some(OsString::from(format!("/{}", "long/".repeat(20))));
        assert_eq!(wished(long), None);
        // As where there is no home.
        for variable in [long as fn(&str) -> Option<OsString>, |_| None] {
            let paths: Vec<_> = usual(7, variable).into_iter().map(|base| base.path).collect();
            assert_eq!(paths, [Path::new("/var/tmp/tidefs-7"), Path::new("/tmp/tidefs-7")]);
        }
    }
}
