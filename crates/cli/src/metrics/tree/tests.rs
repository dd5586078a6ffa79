//! A directory with all that may lie in a mount.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::*;

fn asked(tree: &Tree, path: &str) -> Value {
    serde_json::from_str(&tree.json(path).unwrap()).unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("large/deep")).unwrap();
    fs::write(at("large/deep/one"), vec![1; 300_000]).unwrap();
    fs::write(at("large/two"), vec![2; 100_000]).unwrap();
    fs::write(at("small"), vec![3; 10_000]).unwrap();
    fs::create_dir(at("odd %2F/")).unwrap();
    symlink("/etc", at("elsewhere")).unwrap();
    folder
}

#[test]
fn what_takes_the_most_comes_first() {
    let folder = folder();
    let tree = Tree::of(folder.path());
    let top = asked(&tree, "");
    let names: Vec<_> =
        top["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["large", "small"]);
    let large = &top["entries"][0];
    assert!(large["bytes"].as_u64().unwrap() >= 400_000, "{large}");
    assert_eq!((&large["files"], &large["kind"]), (&2.into(), &"directory".into()));
    assert_eq!((&top["complete"], &top["files"]), (&true.into(), &4.into()));
    assert_eq!(asked(&tree, "/large/deep")["entries"][0]["name"], "one");
    let odd = top["entries"].as_array().unwrap().iter().find(|it| it["name"] == "odd %2F").unwrap();
    assert_eq!(asked(&tree, odd["part"].as_str().unwrap())["files"], 0);
}

#[test]
fn a_file_with_several_names_counts_once() {
    let folder = folder();
    let alone = asked(&Tree::of(folder.path()), "");
    for name in ["large/again", "odd %2F/again", "again"] {
        fs::hard_link(folder.path().join("large/deep/one"), folder.path().join(name)).unwrap();
    }
    let linked = asked(&Tree::of(folder.path()), "");
    assert_eq!(linked["bytes"], alone["bytes"]);
    assert_eq!(linked["files"], 7, "names are counted");
    let of = |path: &str| asked(&Tree::of(folder.path()), path)["entries"][0]["bytes"].clone();
    assert_eq!(of("odd%20%252F"), of("large/deep"), "alone it counts where it is looked at");
}

#[test]
fn nobody_leaves_the_mount() {
    let folder = folder();
    let tree = Tree::of(&folder.path().join("large"));
    for path in
        ["..", "deep/..%2f..", "%2e%2e", "../small", "deep/%2e%2e/%2e%2e", "none", "two", "a%00"]
    {
        assert_eq!(tree.json(path).unwrap_err(), Untold::Missing, "{path}");
    }
    let tree = Tree::of(folder.path());
    assert_eq!(tree.json("elsewhere").unwrap_err(), Untold::Missing);
    assert_eq!(tree.json("elsewhere/ssl").unwrap_err(), Untold::Missing);
}

#[test]
fn one_directory_is_looked_at_at_a_time() {
    let folder = folder();
    let tree = Tree::of(folder.path());
    tree.walking.store(true, Ordering::Release);
    assert_eq!(tree.json("").unwrap_err(), Untold::Busy);
    tree.walking.store(false, Ordering::Release);
    assert!(tree.json("").is_ok());
    assert!(tree.json("none").is_err());
    while tree.walking.load(Ordering::Acquire) {
        thread::yield_now();
    }
    assert!(tree.json("").is_ok(), "a walk that failed is over");
}

#[test]
fn a_walk_has_bounds_and_says_so() {
    let folder = folder();
    let base = rustix::fs::open(folder.path(), OFlags::PATH, Mode::empty()).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut walk = Walk::from(base, until, 2);
    let (_, files, complete) = walk.sum(PathBuf::from("."));
    assert!(!walk.complete && !complete && files <= 2);
    // Nothing is left for what comes behind it.
    assert_eq!(walk.sum(PathBuf::from("large")), (0, 0, false));
    let base = rustix::fs::open(folder.path(), OFlags::PATH, Mode::empty()).unwrap();
    let mut late = Walk::from(base, Instant::now(), 100);
    assert!(!late.sum(PathBuf::from(".")).2);
}
