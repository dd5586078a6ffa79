//! A store that is full: more programs wait to make names than threads, of whatever kind, serve the mount.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidefs_fuse::Session;
use tidefs_model::ByteSize;
use tidefs_store::{Embedded, Faulty, Operation, Patient, Room};

use crate::support::{empty_folder, heap, is_wanted, join, options};

/// More than wait on threads of their own.
const WAITING: usize = 300;
const SOON: Duration = Duration::from_secs(60);

/// Room may come at any time.
struct Hope;

impl Room for Hope {
    fn hope(&self, _endpoint: &str) -> bool {
        true
    }
}

fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(SOON).unwrap_or_else(|_| panic!("not while others wait: {what}"))
}

/// What can be freed.
pub fn furnish(free: &Path) {
    fs::create_dir_all(free.join("empty")).unwrap();
    for name in ["gone", "cut", "from", "onto", "open"] {
        fs::write(free.join(name), [7; 5_000]).unwrap();
    }
    let marked = File::open(free.join("cut")).unwrap();
    rustix::fs::fsetxattr(&marked, c"user.a", b"value", rustix::fs::XattrFlags::empty()).unwrap();
}

pub fn frees(free: &Path) {
    let at = |name: &str| free.join(name);
    let (dir, list) = (at("empty"), free.to_owned());
    within("rmdir", move || fs::remove_dir(dir)).unwrap();
    within("a listing", move || fs::read_dir(list).unwrap().count());
    let (from, onto) = (at("from"), at("onto"));
    within("a rename over another", move || fs::rename(from, onto)).unwrap();
    let cut = OpenOptions::new().write(true).open(at("cut")).unwrap();
    within("a cut", move || cut.set_len(1)).unwrap();
    let marked = File::open(at("cut")).unwrap();
    within("an attribute's removal", move || rustix::fs::fremovexattr(marked, c"user.a")).unwrap();
    let open = File::open(at("open")).unwrap();
    for name in ["gone", "open"] {
        let path = at(name);
        within("a removal", move || fs::remove_file(path)).unwrap();
    }
    within("a close", move || drop(open));
}

#[test]
fn what_frees_memory_is_served_however_many_wait_to_make_names() {
    if !is_wanted("fuse") {
        return;
    }
    let faulty = Arc::new(Faulty::new(Arc::clone(&heap(ByteSize::mib(64))), Vec::new()));
    let store: Patient<Arc<Faulty<Arc<Embedded>>>> =
        Patient::new(Arc::clone(&faulty), Arc::new(Hope));
    let folder = empty_folder();
    let options = options(folder.path());
    let mut session = Session::mount(join(Arc::new(store), false), &options).unwrap();
    let (free, inside) = (folder.path().join("free"), folder.path().join("in"));
    furnish(&free);
    let parents: Vec<PathBuf> = (0..WAITING).map(|n| inside.join(n.to_string())).collect();
    parents.iter().for_each(|parent| fs::create_dir_all(parent).unwrap());
    let before = faulty.count(Operation::Batch);
    faulty.set_full(true);
    let makes: Vec<_> = parents
        .into_iter()
        .map(|parent| std::thread::spawn(move || fs::create_dir(parent.join("new"))))
        .collect();
    let end = Instant::now() + SOON;
    while faulty.count(Operation::Batch) < before + WAITING as u64 {
        assert!(Instant::now() < end, "not all of them have met the full store");
        std::thread::sleep(Duration::from_millis(10));
    }
    frees(&free);
    assert!(makes.iter().all(|made| !made.is_finished()), "they wait");
    faulty.set_full(false);
    makes.into_iter().for_each(|made| made.join().unwrap().unwrap());
    session.unmount().unwrap();
}
