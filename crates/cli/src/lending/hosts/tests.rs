//! Hosts come and go, and are told of nodes, heirs, and the end.

use std::net::Ipv4Addr;
use std::thread;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

/// And stays.
fn enter(hosts: &Hosts, agent: u128, name: &str) -> (u64, Rank) {
    let (line, rank) = hosts.enter(entering(agent, name, true));
    (line, rank.unwrap())
}

fn entering(agent: u128, name: &str, stays: bool) -> Entering {
    let (name, address, port) = (name.to_owned(), HERE, Some(agent as u16));
    Entering { agent, name, address, port, rank: None, stays, clock: None }
}

fn ranks(hosts: &Hosts) -> Vec<Rank> {
    hosts.heirs().into_iter().map(|it| it.rank).collect()
}

#[test]
fn nodes_are_used_when_all_hosts_know_of_them() {
    let hosts = Hosts::default();
    assert!(hosts.all_know(NOW).is_empty(), "nobody is there");
    enter(&hosts, 1, "one");
    enter(&hosts, 2, "two");
    hosts.nodes_changed();
    hosts.heard(2, 0, hosts.number(), true);
    assert_eq!(hosts.all_know(NOW), ["one"]);
    thread::scope(|scope| {
        let waits = scope.spawn(|| hosts.all_know(LONG));
        assert_eq!(hosts.number_after(0, LONG), hosts.number());
        hosts.heard(1, 0, hosts.number(), true);
        assert!(waits.join().unwrap().is_empty());
    });
    hosts.nodes_changed();
    hosts.heard(2, 0, hosts.number(), true);
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
    assert_eq!(ranks(&hosts), [one, two]);
    let successor = Hosts::default();
    let (voters, found) = (hosts.voters(), Found::default());
    successor.begin_term(Term::default().next(5), hosts.heirs(), voters, found);
    let (_, newcomer) = enter(&successor, 3, "new");
    assert!(two < newcomer);
    assert_eq!(ranks(&successor), [one, two, newcomer], "who has yet to come stands in it");
    let again = Entering { rank: Some(two), ..entering(2, "it", true) };
    assert_eq!(successor.enter(again), (0, Some(two)));
    assert_eq!(ranks(&successor), [one, two, newcomer]);
}

/// One that lacks something goes again, and one that loses its power says nothing.
#[test]
fn a_host_that_has_only_entered_is_no_heir_and_nobody_needs_its_vote() {
    let hosts = Hosts::default();
    let stay = [1, 2].map(|agent| enter(&hosts, agent, "it").1);
    let all_hear = || {
        for _ in 0..4 {
            let number = hosts.number();
            for agent in [1, 2] {
                hosts.heard(agent, 0, number, true);
            }
        }
    };
    all_hear();
    let elect = |ranks: &[Rank]| hosts.voters().elect(&ranks.iter().copied().map(Some).collect());
    assert!(elect(&stay));
    assert_eq!(hosts.enter(entering(3, "new", false)), (0, None));
    assert_eq!(hosts.heard(3, 0, hosts.number(), false), None);
    all_hear();
    assert!(elect(&stay), "it may have gone since");
    assert_eq!(ranks(&hosts), stay);
    let (_, later) = enter(&hosts, 4, "later");
    let number = hosts.number();
    let place = hosts.heard(3, 0, number, true).unwrap();
    assert!(place > later, "whoever came to the line before knows nothing of it");
    assert!(hosts.number() > number, "all are told at once");
    assert_eq!(ranks(&hosts), [stay[0], stay[1], later, place]);
    for agent in [3, 4] {
        hosts.heard(agent, 0, hosts.number(), true);
    }
    all_hear();
    assert!(!elect(&stay) && elect(&[stay[0], stay[1], place]), "three of five");
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
