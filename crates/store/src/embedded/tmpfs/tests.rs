//! What a tmpfs home does beyond what every store does: files come and go with their data, pins
//! hold them, and the capacity is one.

use super::*;

const STRIPE: u32 = 1 << 16;
const CAPACITY: u64 = 16 << 20;

/// `None` where the caller of the tests has named the tmpfs to be left out.
fn tmpfs() -> Option<(Tmpfs, Arc<Budget>)> {
    if std::env::var("TIDEFS_TEST_WITHOUT")
        .is_ok_and(|names| names.split(',').any(|n| n == "tmpfs"))
    {
        eprintln!("left out, as TIDEFS_TEST_WITHOUT says: tmpfs");
        return None;
    }
    let budget = Arc::new(Budget::new(0));
    let size = StripeSize::new(STRIPE).unwrap();
    let home = Tmpfs::new(ByteSize(CAPACITY), size, Arc::clone(&budget));
    Some((home.expect("mounting needs root; TIDEFS_TEST_WITHOUT=tmpfs leaves it out"), budget))
}

fn key(ino: u64, index: u32) -> StripeKey {
    StripeKey { ino: Ino(ino), index }
}

fn write(home: &Tmpfs, key: StripeKey, offset: u32, bytes: &[u8]) -> Result<(), StoreError> {
    home.write(&StripeWrite { key, offset, bytes })
}

fn read(home: &Tmpfs, key: StripeKey, offset: u32, length: usize) -> Vec<u8> {
    let mut buffer = vec![9; length];
    home.read(&mut StripeRead { key, offset, buffer: &mut buffer }).unwrap();
    buffer
}

fn files(home: &Tmpfs) -> u64 {
    home.files.load(Ordering::Relaxed)
}

#[test]
fn a_file_is_there_while_one_of_its_stripes_is() {
    let Some((home, budget)) = tmpfs() else { return };
    for index in 0..3 {
        write(&home, key(1, index), 0, &[1; STRIPE as usize]).unwrap();
    }
    assert_eq!(files(&home), 1);
    home.trim(&[(key(1, 0), 0), (key(1, 2), 0)]).unwrap();
    assert_eq!(files(&home), 1);
    assert_eq!(home.mount.used_bytes(), Ok(u64::from(STRIPE)));
    assert_eq!(home.length(key(1, 1)), Ok(STRIPE));
    home.trim(&[(key(1, 1), 0)]).unwrap();
    assert_eq!((files(&home), home.used_bytes(), budget.used_bytes()), (0, Ok(0), 0));
    assert!(home.mount.open(Ino(1)).unwrap().is_none());
}

#[test]
fn a_pinned_file_and_its_stripes_are_the_same_bytes() {
    let Some((home, _)) = tmpfs() else { return };
    write(&home, key(2, 0), 10, b"before").unwrap();
    let file = home.pin(Ino(2)).unwrap().file;
    assert!(
        Arc::ptr_eq(&file, &home.pin(Ino(2)).unwrap().file),
        "one file however often it is pinned"
    );
    file.write_all_at(b"through the file", u64::from(STRIPE) + 5).unwrap();
    assert_eq!(read(&home, key(2, 1), 5, 16), b"through the file");
    write(&home, key(2, 1), 0, b"stripe").unwrap();
    let mut start = [0; 6];
    file.read_exact_at(&mut start, u64::from(STRIPE)).unwrap();
    assert_eq!(&start, b"stripe");
    home.trim(&[(key(2, 1), 3)]).unwrap();
    assert_eq!(file.metadata().unwrap().len(), u64::from(STRIPE) + 3);
}

#[test]
fn a_pinned_file_outlives_its_last_stripe_until_it_is_unpinned() {
    let Some((home, _)) = tmpfs() else { return };
    let file =
        home.pin(Ino(3)).expect("an inode without stripes has a file while it is pinned").file;
    assert_eq!((files(&home), home.length(key(3, 0))), (1, Ok(0)));
    write(&home, key(3, 0), 0, b"data").unwrap();
    home.trim(&[(key(3, 0), 0)]).unwrap();
    file.write_all_at(b"again", 0).unwrap();
    assert_eq!(read(&home, key(3, 0), 0, 5), b"again");
    home.unpin(Ino(3));
    assert_eq!(read(&home, key(3, 0), 0, 5), b"again");
    home.pin(Ino(3)).unwrap();
    home.trim(&[(key(3, 0), 0)]).unwrap();
    assert_eq!(files(&home), 1);
    home.unpin(Ino(3));
    home.unpin(Ino(3));
    assert_eq!((files(&home), home.pinned.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_file_stays_pinned_until_all_who_pinned_it_are_done() {
    let Some((home, _)) = tmpfs() else { return };
    let first = home.pin(Ino(3)).expect("pinned");
    let second = home.pin(Ino(3)).expect("pinned");
    assert_eq!((first.is_first, second.is_first), (true, false));
    home.unpin(Ino(3));
    second.file.write_all_at(b"still the file", 0).unwrap();
    assert_eq!(read(&home, key(3, 0), 0, 14), b"still the file");
    second.file.set_len(0).unwrap();
    home.unpin(Ino(3));
    assert_eq!((files(&home), home.pinned.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn no_more_files_are_pinned_than_descriptors_allow() {
    let Some((mut home, _)) = tmpfs() else { return };
    home.pinned_max = 2;
    assert!(home.pin(Ino(1)).is_some() && home.pin(Ino(2)).is_some());
    assert!(home.pin(Ino(3)).is_none());
    home.unpin(Ino(1));
    assert!(home.pin(Ino(3)).is_some());
}

#[test]
fn the_length_of_a_stripe_is_what_was_written_rounded_up_to_a_page() {
    let Some((home, _)) = tmpfs() else { return };
    write(&home, key(4, 2), 5_000, &[0; 10]).unwrap();
    assert_eq!(home.length(key(4, 2)), Ok(5_010), "the file ends there");
    assert_eq!((home.length(key(4, 0)), home.length(key(4, 3))), (Ok(0), Ok(0)));
    write(&home, key(4, 0), 5_000, &[0; 10]).unwrap();
    assert_eq!(home.length(key(4, 0)), Ok(8_192));
    assert_eq!(home.length(key(4, 1)), Ok(0), "a hole is no stripe");
}

#[test]
fn files_and_shards_share_one_capacity() {
    let Some((home, budget)) = tmpfs() else { return };
    let first_part = budget.limit_bytes();
    assert!(home.cede(CAPACITY / 2) && budget.reserve(CAPACITY / 2));
    assert!(budget.limit_bytes() >= CAPACITY / 2);
    let stripe = vec![1; STRIPE as usize];
    let stored = (0..).find(|&index| write(&home, key(5, index), 0, &stripe).is_err()).unwrap();
    let stored_bytes = u64::from(stored) * u64::from(STRIPE);
    assert!((CAPACITY * 2 / 5..=CAPACITY / 2).contains(&stored_bytes), "{stored_bytes} stored");
    assert!(!home.cede(CAPACITY / 4), "the files have the rest");
    budget.release(CAPACITY / 2);
    home.settle();
    assert_eq!(budget.limit_bytes(), first_part);
    write(&home, key(6, 0), 0, &stripe).expect("the shards gave their part back");
}

#[test]
fn a_file_that_could_not_be_written_leaves_nothing() {
    let Some((home, budget)) = tmpfs() else { return };
    let stripe = vec![1; STRIPE as usize];
    let end = (0..).find(|&index| write(&home, key(7, index), 0, &stripe).is_err()).unwrap();
    // The last stripe may have been written in part.
    write(&home, key(7, end), 0, &stripe).unwrap_err();
    assert_eq!(write(&home, key(8, 0), 0, b"more"), Err(full()));
    assert_eq!((files(&home), budget.used_bytes()), (1, FILE_OVERHEAD_BYTES));
}
