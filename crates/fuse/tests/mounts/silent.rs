//! A node that does not answer: more programs read what is on it than threads serve the mount.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use tidefs_fuse::Session;
use tidefs_model::ByteSize;
use tidefs_store::{Embedded, Faulty, Operation, When};

use crate::full::{frees, furnish};
use crate::support::{empty_folder, heap, is_wanted, join, options};

/// More than there ever are threads that serve a mount.
const READERS: usize = 200;
/// Less than the store holds a call.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn what_frees_memory_is_served_however_many_wait_for_bytes() {
    if !is_wanted("fuse") {
        return;
    }
    let store: Arc<Faulty<Arc<Embedded>>> =
        Arc::new(Faulty::new(heap(ByteSize::mib(64)), Vec::new()));
    let folder = empty_folder();
    let options = options(folder.path());
    let mut session = Session::mount(join(Arc::clone(&store), false), &options).unwrap();
    let (free, inside) = (folder.path().join("free"), folder.path().join("in"));
    furnish(&free);
    fs::create_dir(&inside).unwrap();
    let opened = |number: usize| {
        let path = inside.join(number.to_string());
        fs::write(&path, [7; 8_192]).unwrap();
        let file = File::open(path).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file
    };
    let files: Vec<File> = (0..READERS).map(opened).collect();
    let silent = store.pause(Operation::Read, When::Before);
    let reads: Vec<_> = files
        .into_iter()
        .map(|mut file| std::thread::spawn(move || file.read(&mut [0; 4_096])))
        .collect();
    assert!(silent.wait_until_held(READERS, SOON), "not all of them read at a time");
    frees(&free);
    assert!(reads.iter().all(|read| !read.is_finished()), "they wait");
    drop(silent);
    reads.into_iter().for_each(|read| assert_eq!(read.join().unwrap().unwrap(), 4_096));
    session.unmount().unwrap();
}
