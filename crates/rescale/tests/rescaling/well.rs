//! Callbacks that do as they are told.

use tidefs_rescale::{Call, Server, Settings};

use crate::sim::{Manner, Sim, change, seconds, server, well};

#[test]
fn servers_come_and_buckets_are_even_then() {
    let mut sim = Sim::new(4, 60);
    let before = sim.buckets();
    let outcome = sim.rescale(change(4..6, &[]), &mut well).unwrap();
    assert!(outcome.is_complete() && outcome.faults.is_empty(), "{outcome:?}");
    assert_eq!(outcome.started, ["s4", "s5"]);
    assert!(sim.servers.values().all(|held| held.len() == 40), "{:?}", sim.servers);
    assert_eq!(sim.buckets(), before);
    assert_eq!((outcome.after.buckets_moved, outcome.after.bytes_moved), (80, 8_000));
    assert_eq!((outcome.after.data_balance, outcome.after.seconds), (1.0, 4.0));
    assert_eq!(outcome.planned, outcome.after);
    assert_eq!(outcome.least.bytes_moved, 8_000);
}

#[test]
fn servers_go_when_they_are_empty_and_others_at_once() {
    let mut sim = Sim::new(4, 30);
    sim.servers.get_mut("s3").unwrap().clear();
    sim.settings.between_inventories = seconds(0.05);
    let before = sim.buckets();
    let outcome = sim.rescale(change(4..5, &["s2", "s3"]), &mut well).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    // What holds nothing does not wait for what holds something.
    assert_eq!(outcome.stopped, ["s3", "s2"]);
    assert_eq!(sim.servers.keys().collect::<Vec<_>>(), ["s0", "s1", "s4"]);
    assert_eq!(sim.buckets(), before);
    let call = |wanted: fn(&Call) -> bool| sim.calls.iter().position(wanted).unwrap();
    let stop = call(|it| matches!(it, Call::Stop { .. }));
    let last = sim.calls.iter().rposition(|it| matches!(it, Call::Move { .. })).unwrap();
    assert!(stop < last, "the first stop is call {stop}, the last move call {last}");
}

/// One inventory says all that has to be known, however long it takes.
#[test]
fn a_server_that_holds_nothing_goes_where_nothing_is_moved() {
    let mut sim = Sim::new(3, 20);
    sim.servers.get_mut("s2").unwrap().clear();
    let outcome = sim.rescale(change(0..0, &["s2"]), &mut |call| match call {
        Call::Inventory => (Manner::Fine, seconds(0.5)),
        _ => well(call),
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_eq!((outcome.stopped, outcome.after.buckets_moved), (vec!["s2".to_owned()], 0));
    let stop = Call::Stop { server: "s2".to_owned() };
    let looks = sim.calls.iter().take_while(|call| **call != stop);
    assert_eq!(looks.filter(|call| **call == Call::Inventory).count(), 1);
}

/// Moves between servers that are there do not wait for one that starts.
#[test]
fn moves_begin_while_servers_start() {
    let mut sim = Sim::new(4, 30);
    let outcome = sim.rescale(change(4..5, &["s2", "s3"]), &mut well).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    let first = sim.calls.iter().position(|it| matches!(it, Call::Move { .. })).unwrap();
    let Call::Move { to, .. } = &sim.calls[first] else { unreachable!() };
    assert_ne!(to, "s4");
    let looks = sim.calls[..first].iter().filter(|it| **it == Call::Inventory).count();
    assert_eq!(looks, 1, "only the first inventory comes before it");
}

#[test]
fn a_server_takes_part_in_as_many_moves_as_it_may() {
    for most in [1, 3] {
        let mut sim = Sim::new(2, 50);
        sim.settings = Settings { moves_per_server: most, ..Settings::default() };
        let outcome = sim.rescale(change(2..4, &[]), &mut well).unwrap();
        assert!(outcome.is_complete());
        assert_eq!(sim.most_moves, most);
    }
}

#[test]
fn limits_may_be_as_long_as_can_be() {
    let mut sim = Sim::new(2, 10);
    let forever = std::time::Duration::MAX;
    sim.settings.inventory_within = forever;
    sim.settings.start_within = forever;
    sim.settings.move_within = forever;
    sim.settings.stop_within = forever;
    let outcome = sim.rescale(change(2..3, &["s0"]), &mut well).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
}

#[test]
fn classes_weights_and_loads_are_kept_to() {
    let mut sim = Sim::new(3, 40);
    let of = |class: &str, weight: f64, name: &str| Server {
        class: class.to_owned(),
        weight,
        ..server(name)
    };
    for (class, weight, name) in
        [("fast", 1.0, "s0"), ("fast", 3.0, "s1"), ("slow", 1.0, "s2"), ("slow", 1.0, "s3")]
    {
        sim.specs.insert(name.to_owned(), of(class, weight, name));
    }
    let mut wanted = change(3..4, &[]);
    wanted.start = vec![of("slow", 1.0, "s3")];
    // One bucket in four is asked for ten times as much.
    let loads = |at: usize, bucket: &str| {
        (bucket.to_owned(), if at.is_multiple_of(4) { 10.0 } else { 1.0 })
    };
    sim.loads = sim.buckets().iter().enumerate().map(|(at, bucket)| loads(at, bucket)).collect();
    let outcome = sim.rescale(wanted, &mut well).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    let held = |name: &str| sim.servers[name].len();
    assert_eq!((held("s0"), held("s1"), held("s2"), held("s3")), (20, 60, 20, 20));
    assert!(outcome.after.load_balance < 1.05, "{:?}", outcome.after);
}

#[test]
fn more_buckets_than_fit_into_sixteen_bits() {
    let mut sim = Sim::new(4, 20_000);
    sim.settings.moves_per_server = 64;
    // Each has 80,000 names to compare.
    sim.settings.between_inventories = seconds(5.0);
    let outcome = sim.rescale(change(4..5, &[]), &mut well).unwrap();
    assert!(outcome.is_complete());
    assert_eq!(sim.buckets().len(), 80_000);
    assert!(outcome.after.data_balance < 1.01, "{:?}", outcome.after);
}
