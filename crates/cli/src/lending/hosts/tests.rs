//! Hosts come and go, and are told of nodes, heirs, and the end.

use std::net::Ipv4Addr;
use std::thread;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

fn enter(hosts: &Hosts, agent: u128, name: &str) -> (u64, Rank) {
    let (name, address, port) = (name.to_owned(), HERE, Some(agent as u16));
    hosts.enter(Entering { agent, name, address, port, rank: None, clock: None })
}

#[test]
fn nodes_are_used_when_all_hosts_know_of_them() {
    let hosts = Hosts::default();
    assert!(hosts.all_know(NOW).is_empty(), "nobody is there");
    enter(&hosts, 1, "one");
    enter(&hosts, 2, "two");
    hosts.nodes_changed();
    hosts.heard(2, 0, hosts.number());
    assert_eq!(hosts.all_know(NOW), ["one"]);
    thread::scope(|scope| {
        let waits = scope.spawn(|| hosts.all_know(LONG));
        assert_eq!(hosts.number_after(0, LONG), hosts.number());
        hosts.heard(1, 0, hosts.number());
        assert!(waits.join().unwrap().is_empty());
    });
    hosts.nodes_changed();
    hosts.heard(2, 0, hosts.number());
    thread::scope(|scope| {
        let waits = scope.spawn(|| hosts.all_know(LONG));
        hosts.leave(1, 0);
        assert!(waits.join().unwrap().is_empty(), "who has left need not know");
    });
}

#[test]
fn mounts_end_with_their_host_and_not_with_a_connection_of_it() {
    let hosts = Hosts::default();
    assert!(!hosts.note_mount(1, 7), "a host that is not there");
    assert_eq!(enter(&hosts, 1, "one").0, 0);
    assert!(hosts.note_mount(1, 7) && hosts.note_mount(1, 8) && hosts.may_return(1, 0));
    hosts.forget_mount(1, 8);
    assert_eq!(enter(&hosts, 1, "one").0, 1, "its connection broke");
    assert!(!hosts.may_return(1, 0) && hosts.leave(1, 0).is_empty(), "it has another one");
    assert_eq!(hosts.seen().len(), 1);
    assert_eq!(hosts.leave(1, 1), BTreeSet::from([7]));
    assert!(hosts.seen().is_empty());
}

#[test]
fn mounts_of_no_host_are_told_of_as_those_that_end_here() {
    let hosts = Hosts::default();
    enter(&hosts, 1, "one");
    let before = hosts.number();
    assert!(hosts.note_mount(1, 7));
    hosts.mount_joined(7);
    assert_eq!((hosts.own_mounts(), hosts.number()), (vec![], before));
    hosts.mount_joined(8);
    assert_eq!((hosts.own_mounts(), hosts.number()), (vec![8], before + 1));
    hosts.mount_ended(8);
    assert!(hosts.own_mounts().is_empty());
}

#[test]
fn mounts_of_the_host_that_has_taken_over_are_told_of_as_well() {
    let hosts = Hosts::default();
    hosts.is_at(SocketAddr::new(HERE, 1));
    for (agent, name) in [(1, "here"), (2, "there")] {
        enter(&hosts, agent, name);
    }
    let before = hosts.number();
    assert!(hosts.note_mount(2, 8) && hosts.number() == before);
    assert!(hosts.note_mount(1, 7));
    assert_eq!((hosts.own_mounts(), hosts.number()), (vec![7], before + 1));
    let seen = hosts.seen().into_iter().map(|it| (it.name, it.has_file_system));
    assert_eq!(seen.collect::<Vec<_>>(), [("here".into(), true), ("there".into(), false)]);
}

#[test]
fn hosts_stand_in_a_line_also_those_of_before_that_may_come() {
    let hosts = Hosts::default();
    let [(_, one), (_, two)] = [1, 2].map(|agent| enter(&hosts, agent, "it"));
    assert!(one < two);
    let ranks = |hosts: &Hosts| hosts.heirs().into_iter().map(|it| it.rank).collect::<Vec<_>>();
    assert_eq!(ranks(&hosts), [one, two]);
    let successor = Hosts::default();
    let (voters, found) = (hosts.voters(), Found::default());
    successor.begin_term(Term::default().next(5), hosts.heirs(), voters, found);
    let (_, newcomer) = enter(&successor, 3, "new");
    assert!(two < newcomer);
    assert_eq!(ranks(&successor), [one, two, newcomer], "who has yet to come stands in it");
    let (name, address) = ("it".to_owned(), HERE);
    let (port, rank, clock) = (Some(2), Some(two), None);
    let again = Entering { agent: 2, name, address, port, rank, clock };
    assert_eq!(successor.enter(again), (0, two));
    assert_eq!(ranks(&successor), [one, two, newcomer]);
}

#[test]
fn hosts_are_told_of_the_end_and_waited_for() {
    let hosts = Hosts::default();
    enter(&hosts, 1, "one");
    let number = hosts.number();
    thread::scope(|scope| {
        let ends = scope.spawn(|| hosts.end(LONG));
        assert_eq!(hosts.number_after(number, LONG), number, "it is told at once");
        assert!(hosts.is_over());
        hosts.leave(1, 0);
        ends.join().unwrap();
    });
}

#[test]
fn hosts_are_told_who_else_has_the_file_system_and_waited_for() {
    let hosts = Hosts::default();
    let (_, rank) = enter(&hosts, 1, "one");
    let heir = Heir { rank, address: SocketAddr::new(HERE, 1) };
    let owner = Owner { term: Term::default().next(5), heir };
    let number = hosts.number();
    thread::scope(|scope| {
        let moves = scope.spawn(|| hosts.move_to(owner.clone(), LONG));
        assert_eq!(hosts.number_after(number, LONG), number, "it is told at once");
        assert_eq!((hosts.moved(), hosts.is_over()), (Some(owner.clone()), false));
        hosts.leave(1, 0);
        moves.join().unwrap();
    });
}
