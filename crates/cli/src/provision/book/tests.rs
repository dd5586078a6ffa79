//! When hosts are asked for, given up and taken away, by times that are given.

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn node(byte: u8) -> NodeId {
    NodeId([byte; 20])
}

/// With so many starts that wait.
fn book(waiting: usize) -> Book {
    let mut book = Book::new("t".to_owned(), LIMIT);
    book.open();
    (0..waiting).for_each(|_| book.waits());
    book
}

fn states(book: &Book) -> Vec<(String, &'static str)> {
    book.seen(at(0)).into_iter().map(|host| (host.name, host.state)).collect()
}

#[test]
fn as_many_hosts_are_asked_for_as_are_waited_for() {
    let mut book = book(2);
    let names: Vec<_> = (0..3).map(|_| book.have_enough(at(0)).unwrap()).collect();
    assert_eq!(names, [Some("t-1".to_owned()), Some("t-2".to_owned()), None]);
    assert_eq!(book.came("t-1", 7, at(1)), Entrance::Expected);
    assert_eq!(book.have_enough(at(1)), Ok(None), "it has yet to offer a node");
    book.offers("t-1", node(1), |_| false);
    book.in_use(node(1), at(3));
    book.waits_no_longer();
    assert_eq!((book.have_enough(at(3)), book.took()), (Ok(None), Some(at(3))));
    assert_eq!((book.on_their_way(at(3)), book.nodes()), (1, vec![node(1)]));
    book.offers("t-1", node(9), |_| false);
    assert_eq!(book.nodes(), [node(1)], "of another host by its name");
    book.offers("t-1", node(2), |old| old == node(1));
    assert_eq!(book.nodes(), [node(2)], "in the place of one that died");
    book.waits();
    assert_eq!(book.have_enough(at(3)), Ok(Some("t-3".to_owned())));
}

#[test]
fn a_host_that_does_not_come_is_given_up_and_none_is_asked_for_at_once() {
    let mut book = book(1);
    assert_eq!(book.have_enough(at(0)), Ok(Some("t-1".to_owned())));
    assert!(!book.asked("t-1", None, at(2)));
    assert_eq!((book.give_up_late(at(59)), book.late_at()), (vec![], Some(LIMIT)));
    assert_eq!(book.give_up_late(LIMIT).first().map(|(name, _)| name.as_str()), Some("t-1"));
    let why = book.have_enough(LIMIT).unwrap_err();
    assert!(why.contains("t-1 did not come within 60 s") && why.contains("next 5 s"), "{why}");
    assert_eq!(book.came("t-1", 7, at(61)), Entrance::TooLate);
    book.removed("t-1", None, at(61));
    assert_eq!((book.came("t-1", 7, at(62)), states(&book)), (Entrance::TooLate, vec![]));
    assert_eq!(book.have_enough(at(65)), Ok(Some("t-2".to_owned())));
    assert!(book.asked("t-2", Some("exit status 3".to_owned()), at(66)));
    assert!(book.have_enough(at(75)).unwrap_err().contains("exit status 3"), "10 s");
    assert_eq!(book.have_enough(at(76)), Ok(Some("t-3".to_owned())));
    book.came("t-3", 8, at(77));
    assert!(!book.asked("t-3", Some("killed".to_owned()), at(78)), "its agent is there");
    book.offers("t-3", node(3), |_| false);
    book.in_use(node(3), at(78));
    assert_eq!(book.pause(at(78)), None, "what came ends the pause");
}

#[test]
fn a_host_that_comes_and_is_of_no_use_has_failed() {
    let mut book = book(1);
    let name = book.have_enough(at(0)).unwrap().unwrap();
    book.came(&name, 7, at(1));
    book.offers(&name, node(1), |_| false);
    assert_eq!(book.have_enough(at(2)), Ok(None), "its node is about to be taken");
    assert_eq!(book.left(7, at(3)), Some(name));
    let why = book.have_enough(at(3)).unwrap_err();
    assert!(why.contains("t-1 left before its node was in use; none"), "{why}");

    let name = book.have_enough(at(8)).unwrap().unwrap();
    book.came(&name, 8, at(10));
    assert_eq!((book.give_up_late(at(69)), book.late_at()), (vec![], Some(at(70))));
    let given_up = book.give_up_late(at(70));
    assert!(matches!(&given_up[..], [(it, why)] if *it == name && why.contains("offer a node")));
    assert!(!book.offers(&name, node(2), |_| false), "it is being taken away");
    assert_eq!(book.left(8, at(71)), None, "it is taken away once");
    assert_eq!(book.pause(at(70)).map(|(left, _)| left), Some(2 * PAUSE));

    let name = book.have_enough(at(80)).unwrap().unwrap();
    book.came(&name, 9, at(81));
    assert!(book.offers(&name, node(3), |_| false) && book.in_use(node(3), at(82)));
    assert!(!book.in_use(node(4), at(82)), "of another host");
    assert_eq!((book.late_at(), book.left(9, at(83))), (None, Some(name)));
    assert_eq!(book.pause(at(83)), None, "it was of use");
}

#[test]
fn hosts_that_fail_together_fail_once() {
    let mut book = book(3);
    let names: Vec<_> = (0..3).map(|_| book.have_enough(at(0)).unwrap().unwrap()).collect();
    for name in &names {
        assert!(book.asked(name, Some("no quota".to_owned()), at(1)));
    }
    assert_eq!(book.pause(at(1)).map(|(left, _)| left), Some(PAUSE));
}

#[test]
fn a_host_that_has_left_is_taken_away_and_kept_in_mind_until_it_is() {
    let mut book = book(1);
    let name = book.have_enough(at(0)).unwrap().unwrap();
    assert_eq!(book.came(&name, 7, at(1)), Entrance::Expected);
    assert_eq!(book.came(&name, 7, at(2)), Entrance::Expected, "on another connection");
    assert_eq!(book.came(&name, 8, at(2)), Entrance::Unasked, "a second one by that name");
    assert_eq!(book.came("mine", 9, at(2)), Entrance::Unasked);
    assert_eq!((book.left(8, at(3)), book.left(7, at(3))), (None, Some(name.clone())));
    assert_eq!(states(&book), [(name.clone(), "leaving")]);
    book.removed(&name, Some("no such host".to_owned()), at(4));
    assert_eq!(states(&book), [(name.clone(), "not removed")]);
    book.removed(&name, None, at(5));
    assert!(book.names().is_empty());
}

#[test]
fn none_comes_to_a_file_system_that_stops() {
    let mut book = book(1);
    let name = book.have_enough(at(0)).unwrap().unwrap();
    book.close();
    assert_eq!(book.came(&name, 7, at(1)), Entrance::TooLate);
    assert!(book.have_enough(at(1)).unwrap_err().contains("stopping"));
}

#[test]
fn no_more_hosts_are_asked_for_than_may_be_and_none_before_those_of_the_start_are_there() {
    let mut book = Book::new("t".to_owned(), LIMIT);
    book.have_at_most(1);
    (0..2).for_each(|_| book.waits());
    assert!(book.have_enough(at(0)).unwrap_err().contains("are joining"));
    book.open();
    let name = book.have_enough(at(0)).unwrap().unwrap();
    assert!(book.have_enough(at(0)).unwrap_err().contains("no more hosts than 1"));
    book.came(&name, 7, at(1));
    book.offers(&name, node(1), |_| false);
    book.in_use(node(1), at(1));
    assert!(book.have_enough(at(1)).is_err(), "it is there");
    book.left(7, at(2));
    assert_eq!(book.have_enough(at(2)), Ok(Some("t-2".to_owned())), "it leaves");
}

#[test]
fn what_the_program_says_of_a_host_is_why_it_does_not_come() {
    let mut book = book(1);
    let name = book.have_enough(at(0)).unwrap().unwrap();
    book.said(&name, "the queue is long".to_owned());
    assert_eq!(book.seen(at(1))[0].why.as_deref(), Some("the queue is long"));
    book.give_up_late(LIMIT);
    let why = book.have_enough(LIMIT).unwrap_err();
    assert!(why.contains("within 60 s (the queue is long); none"), "{why}");
    book.said("t-9", "of none".to_owned());
}
