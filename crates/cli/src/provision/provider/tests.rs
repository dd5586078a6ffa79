//! What the process that runs the program is told; it is replaced by one that notes it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// One whose runner notes what it hears, and does nothing; and where that is.
fn provider(folder: &tempfile::TempDir, rivalled: &Arc<AtomicBool>) -> (Provider, PathBuf) {
    let heard = folder.path().join("heard");
    let mut notes = Command::new("cat");
    let output = Stdio::from(File::create(&heard).unwrap());
    let mut child = notes.stdin(Stdio::piped()).stdout(output).spawn().unwrap();
    let nothing = OwnedFd::from(File::open("/dev/null").unwrap());
    child.stdout = Some(ChildStdout::from(nothing));
    let order = Order {
        program: PathBuf::from("/bin/true"),
        words: Vec::new(),
        environment: Vec::new(),
        limit: Duration::from_secs(60),
        open_files: None,
        memory_score: None,
        outlives: true,
    };
    let is_rivalled = Arc::clone(rivalled);
    let is_rivalled = Box::new(move || is_rivalled.load(Ordering::SeqCst));
    let provider = Provider::told_to(child, &order, None, is_rivalled).unwrap();
    provider.begin();
    (provider, heard)
}

/// With a host that is there.
fn with_a_host(provider: &Provider) -> String {
    let _waits = provider.waits();
    provider.have_enough().unwrap();
    let name = provider.names().pop().unwrap();
    assert_eq!(provider.came(&name, 7), Entrance::Expected);
    name
}

/// What the runner heard after the order, once it has ended.
fn words(heard: &Path) -> Vec<ToRunner> {
    let said = std::fs::read_to_string(heard).unwrap();
    said.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn who_gives_way_takes_no_host_away_that_may_be_the_successors() {
    let (folder, rivalled) = (tempfile::tempdir().unwrap(), Arc::default());
    let (provider, heard) = provider(&folder, &rivalled);
    let name = with_a_host(&provider);
    rivalled.store(true, Ordering::SeqCst);
    provider.left(7);
    assert_eq!(
        provider.let_go(),
        std::slice::from_ref(&name),
        "it may have to be taken away by hand"
    );
    assert_eq!(provider.end(), Vec::<String>::new(), "it is over already");
    assert_eq!(words(&heard), [ToRunner::Add(name.clone()), ToRunner::Came(name)]);
}

#[test]
fn who_has_the_file_system_after_all_takes_away_what_has_left() {
    let (folder, rivalled) = (tempfile::tempdir().unwrap(), Arc::default());
    let (provider, heard) = provider(&folder, &rivalled);
    let name = with_a_host(&provider);
    rivalled.store(true, Ordering::SeqCst);
    provider.left(7);
    provider.give_up_late(&mut provider.book());
    assert_eq!(provider.book().deferred(), std::slice::from_ref(&name));
    provider.book().defer(name.clone());
    rivalled.store(false, Ordering::SeqCst);
    provider.give_up_late(&mut provider.book());
    provider.give_up_late(&mut provider.book());
    provider.end();
    let told = [ToRunner::Add(name.clone()), ToRunner::Came(name.clone())];
    assert_eq!(words(&heard), [&told[..], &[ToRunner::Remove(name), ToRunner::End]].concat());
}
