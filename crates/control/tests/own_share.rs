//! The share of the data on own nodes: what plans make of it, and when it is put right.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tidefs_control::{
    Cause, Controller, EMPTY_NODE_BYTES, Event, Held, Hold, Inventory, May, Node, NodeState,
    Observation, OwnShare, Plan, Quiet, Settings, SharesHeld, Silence, Situation, Spreading,
    Uneven, Verdict, check, decide, plan,
};
use tidefs_model::{ByteSize, METADATA_PARTITIONS, NodeClass, NodeId, PARTITIONS, Time};

const MIB: u64 = 1 << 20;
const DATA: u16 = PARTITIONS - METADATA_PARTITIONS;

fn share(text: &str) -> OwnShare {
    text.parse().expect("a share")
}

fn spreading(own_share: OwnShare) -> Spreading {
    Spreading { own_share: Some(own_share), ..Spreading::default() }
}

fn id(at: usize) -> NodeId {
    NodeId([at as u8 + 1; 20])
}

/// Own nodes first, then victims; each partition of data holds so many MiB.
#[derive(Clone, Debug)]
struct World {
    own: usize,
    capacity: u64,
    /// By partition, its node; metadata partitions come first and are empty.
    owners: Vec<usize>,
    mib: Vec<u64>,
    nodes: usize,
}

impl World {
    /// Everything lies on own nodes.
    fn new(own: usize, nodes: usize, capacity_mib: u64, mib: &[u64]) -> World {
        let owners = (0..usize::from(PARTITIONS)).map(|number| number % own).collect();
        let mib = (0..usize::from(PARTITIONS)).map(|number| mib[number % mib.len()]);
        let is_data = |number: usize| number >= usize::from(METADATA_PARTITIONS);
        let mib = mib.enumerate().map(|(number, mib)| if is_data(number) { mib } else { 0 });
        World { own, capacity: capacity_mib * MIB, owners, mib: mib.collect(), nodes }
    }

    fn inventory(&self) -> Inventory {
        let held = self.owners.iter().zip(&self.mib);
        let held = held.map(|(&at, mib)| Held { owner: Some(id(at)), bytes: Some(mib * MIB) });
        Inventory::new(self.nodes(), &held.collect::<Vec<_>>()).expect("no contradiction")
    }

    fn nodes(&self) -> Vec<Node> {
        let node = |at| Node {
            id: id(at),
            class: if at < self.own { NodeClass::Own } else { NodeClass::Victim },
            state: NodeState::Serving,
            capacity_bytes: self.capacity,
            used_bytes: EMPTY_NODE_BYTES + self.bytes(|owner| owner == at),
            partitions: 0,
            received_bytes: 0,
            sent_bytes: 0,
        };
        (0..self.nodes).map(node).collect()
    }

    fn bytes(&self, of: impl Fn(usize) -> bool) -> u64 {
        let held = self.owners.iter().zip(&self.mib).filter(|(owner, _)| of(**owner));
        held.map(|(_, mib)| mib * MIB).sum()
    }

    fn own_percent(&self) -> f64 {
        self.bytes(|owner| owner < self.own) as f64 * 100.0 / self.bytes(|_| true).max(1) as f64
    }

    /// Nodes from `stay` on leave.
    fn plan(&self, stay: usize, own_share: OwnShare) -> Plan {
        let leaving: BTreeSet<_> = (stay..self.nodes).map(id).collect();
        plan(&self.inventory(), &leaving, &spreading(own_share)).expect("a plan")
    }

    fn carry_out(&mut self, plan: &Plan) {
        assert_eq!(check(plan, &self.inventory()), []);
        for step in plan.moves() {
            let to = (0..self.nodes).find(|&at| id(at) == step.to).expect("a node");
            self.owners[usize::from(step.partition.number())] = to;
        }
        self.nodes -= plan.leaving.len();
    }
}

/// MemFSS's figure 2: two own nodes, six victims, and the shares that it tries.
#[test]
fn the_share_is_held_whichever_way_the_victims_go() {
    // 600 stripes of 1 MiB, a prime number of partitions apart.
    let mut mib = vec![0; usize::from(PARTITIONS)];
    for stripe in 0..600_usize {
        mib[usize::from(METADATA_PARTITIONS) + stripe * 37 % usize::from(DATA)] += 1;
    }
    for text in ["0", "0.25", "0.5", "0.75", "1"] {
        let mut world = World::new(2, 2, 1_024, &mib);
        for nodes in [5, 8, 5, 8, 3] {
            world.nodes = world.nodes.max(nodes);
            let plan = world.plan(nodes, share(text));
            world.carry_out(&plan);
            let off = world.own_percent() - 100.0 * share(text).part();
            assert!(off.abs() < 0.5, "{text}, {nodes} nodes: off by {off:.2} points, {plan}");
            let least = plan.bytes_minimum + 4 * MIB;
            assert!(plan.bytes_moved() <= least, "{text}, {nodes} nodes: {plan}");
            assert!(world.plan(world.nodes, share(text)).is_empty(), "{text}: it moves on");
        }
        let plan = world.plan(2, share(text));
        world.carry_out(&plan);
        assert_eq!(world.own_percent(), 100.0, "without victims all of it is on own nodes");
    }
}

#[test]
fn memory_has_the_last_word() {
    // 1,500 MiB of data; each node takes 950 MiB of its 1,000.
    let mut mib = vec![0; usize::from(PARTITIONS)];
    for stripe in 0..1_500_usize {
        mib[usize::from(METADATA_PARTITIONS) + stripe * 7 % usize::from(DATA)] += 1;
    }
    let mut world = World::new(1, 1, 2_000, &mib);
    (world.nodes, world.capacity) = (3, 1_000 * MIB);
    // More than it may hold is on the own node; no plan adds to that.
    let plan = world.plan(3, share("1"));
    assert_eq!(check(&plan, &world.inventory()), []);
    world.carry_out(&plan);
    let own = world.bytes(|owner| owner < 1) / MIB;
    assert!((900..=950).contains(&own), "{own} MiB on a node that takes 950");
}

#[test]
fn a_share_that_is_off_is_noticed_and_put_right_once() {
    let mut world = World::new(2, 4, 1_024, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let mut shares = SharesHeld::default();
    let wanted = spreading(share("0.5"));
    shares.observe(at(0), &Observation::new(world.nodes()), &wanted);
    let off = shares.off().expect("all of it is on own nodes");
    assert_eq!((off.own_percent, off.wanted_percent), (100.0, 50.0));
    assert_eq!(shares.stays_off(at(1)), None, "it may be a file that is being written");
    shares.observe(at(2), &Observation::new(world.nodes()), &wanted);
    assert!(shares.stays_off(at(2)).is_some());
    let plan = world.plan(4, share("0.5"));
    world.carry_out(&plan);
    shares.measured(&world.inventory());
    shares.observe(at(3), &Observation::new(world.nodes()), &wanted);
    assert_eq!(shares.off(), None);
    // What own nodes use beside the data is told from it once it was measured.
    let mut nodes = world.nodes();
    nodes[0].used_bytes += 100 * MIB;
    shares.observe(at(4), &Observation::new(nodes.clone()), &wanted);
    assert!(shares.off().is_some(), "taken for data at first");
    let held = world.owners.iter().zip(&world.mib);
    let held = held.map(|(&at, mib)| Held { owner: Some(id(at)), bytes: Some(mib * MIB) });
    shares.measured(&Inventory::new(nodes.clone(), &held.collect::<Vec<_>>()).unwrap());
    shares.observe(at(5), &Observation::new(nodes), &wanted);
    let off = shares.off().map_or(0.0, |off| (off.own_percent - 50.0).abs());
    assert!(off < 2.0, "{:?}", shares.off());
    // Nobody wants a share.
    shares.observe(at(6), &Observation::new(world.nodes()), &Spreading::default());
    assert_eq!(shares.off(), None);
}

/// Two own nodes and two victims of 1,024 MiB each, and a third of half the size.
#[test]
fn what_nodes_are_said_to_hold_follows_the_share() {
    let mut settings = Settings::new("static".parse().unwrap(), 2, 2, ByteSize::mib(1_024));
    settings.spreading = spreading(share("0.25"));
    let mut controller = Controller::new(settings).unwrap();
    let mut nodes = World::new(2, 5, 1_024, &[0]).nodes();
    nodes[4].capacity_bytes /= 2;
    let at = Time::from_unix(1_000, 0);
    controller.apply(at, Event::Observed(at, Observation::new(nodes.clone())));
    let shares: Vec<_> = controller.shares().iter().map(|(_, share)| share.part).collect();
    let wanted = [0.125, 0.125, 0.3, 0.3, 0.15];
    assert!(shares.iter().zip(wanted).all(|(it, wanted)| (it - wanted).abs() < 1e-9), "{shares:?}");
    let of_class: Vec<_> = controller.shares().iter().map(|(_, share)| share.of_class).collect();
    assert_eq!(of_class, [0.25, 0.25, 0.75, 0.75, 0.75].map(Some));
    // Without victims there is nothing to share with.
    nodes.truncate(2);
    controller.apply(at, Event::Observed(at, Observation::new(nodes)));
    assert!(controller.shares().iter().all(|(_, it)| (it.part, it.of_class) == (0.5, None)));
}

/// A share that cannot be met, since partitions are too large, is tried once; then a node comes.
#[test]
fn a_writer_that_waits_gets_a_node_where_the_share_stays_off() {
    let world = World::new(1, 2, 1_024, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let mut settings = Settings::new("nso".parse().unwrap(), 1, 4, ByteSize::mib(1_024));
    settings.spreading = spreading(share("0.5"));
    let observed = Observation::new(world.nodes());
    let mut shares = SharesHeld::default();
    shares.observe(at(0), &observed, &settings.spreading);
    assert!(shares.off().is_some());
    let decided = |last_rebalance: Option<Time>, moved_nothing: Option<Time>| {
        decide(&Situation {
            full: Some(Some(id(0))),
            last_rebalance,
            moved_nothing,
            ..situation(&Silence::default(), &settings, &observed, &shares)
        })
    };
    let spreads = |it: &Verdict| matches!(it, Verdict::Rebalance { cause: Cause::OwnShare(off) } if off.own_percent == 100.0);
    for (last_rebalance, moved_nothing) in
        [(None, None), (Some(at(4)), None), (Some(at(4)), Some(at(-60)))]
    {
        let decided = decided(last_rebalance, moved_nothing);
        assert!(spreads(&decided), "{decided:?}");
    }
    let grown = decided(Some(at(4)), Some(at(4)));
    let full = Cause::NodeFull { node: Some(id(0)) };
    assert!(matches!(&grown, Verdict::Grow { cause, .. } if *cause == full), "{grown:?}");
}

fn at(seconds: i64) -> Time {
    Time::from_unix(1_000 + seconds, 0)
}

/// Five seconds after the beginning, with nothing under way and nothing done before.
fn situation<'a>(
    silence: &'a Silence,
    settings: &'a Settings,
    observed: &'a Observation,
    shares: &'a SharesHeld,
) -> Situation<'a> {
    Situation {
        silence,
        now: at(5),
        settings,
        observed,
        quiet: Quiet::default(),
        uneven: Uneven::default(),
        shares,
        full: None,
        last_rebalance: None,
        moved_nothing: None,
        in_vain: None,
        is_as_in_vain: true,
        shift: None,
        ahead: None,
        advice: None,
        may: May::ALL,
    }
}

/// No node may be added, by the policy or by its maximum.
#[test]
fn a_writer_at_a_full_victim_gets_the_own_nodes_room() {
    let decided = |policy: &str, own_mib: u64, moved_nothing: Option<Time>| {
        let mut nodes = World::new(1, 2, 1_024, &[0]).nodes();
        nodes[0].used_bytes = own_mib * MIB;
        nodes[1].used_bytes = 1_024 * MIB;
        nodes.iter_mut().for_each(|node| node.partitions = 8_192);
        let observed = Observation::new(nodes);
        let mut settings = Settings::new(policy.parse().unwrap(), 1, 1, ByteSize::mib(1_024));
        settings.spreading = spreading(share("0"));
        let mut shares = SharesHeld::default();
        shares.observe(at(5), &observed, &settings.spreading);
        decide(&Situation {
            full: Some(Some(id(1))),
            last_rebalance: moved_nothing,
            moved_nothing,
            ..situation(&Silence::default(), &settings, &observed, &shares)
        })
    };
    for (policy, hold) in [
        ("static", Hold::AtMaximum { max: 1 }),
        ("nso", Hold::AtMaximum { max: 1 }),
        ("csi", Hold::NoScaleOut),
    ] {
        let spread = decided(policy, 100, None);
        let for_it = |cause: &Cause| matches!(cause, Cause::NodeFull { .. } | Cause::OwnShare(_));
        let is_right = matches!(&spread, Verdict::Rebalance { cause } if for_it(cause));
        assert!(is_right, "{policy}: {spread:?}");
        assert_eq!(decided(policy, 1_000, None), Verdict::Hold(hold.clone()), "no room either");
        assert_eq!(decided(policy, 100, Some(at(4))), Verdict::Hold(hold), "it was of no use");
    }
}

/// The data is as much as the victims hold, so what is written from now on belongs on own nodes.
#[test]
fn where_victims_are_full_what_holds_nothing_goes_to_own_nodes() {
    let mut mib = vec![0; usize::from(PARTITIONS)];
    for stripe in 0..500_usize {
        mib[usize::from(METADATA_PARTITIONS) + stripe * 29 % usize::from(DATA)] += 1;
    }
    let mut world = World::new(1, 2, 500, &mib);
    world.owners.iter_mut().skip(usize::from(METADATA_PARTITIONS)).for_each(|it| *it = 1);
    world.capacity = 510 * MIB;
    let plan = world.plan(2, share("0"));
    world.carry_out(&plan);
    let moved = world.bytes(|owner| owner == 0) / MIB;
    assert!((10..30).contains(&moved), "{moved} MiB, of what is above 95 % of 510");
    let of_victim = world.owners.iter().filter(|owner| **owner == 1).count();
    assert!(of_victim <= 500, "{of_victim} partitions take new data");
    assert!(world.plan(2, share("0")).is_empty(), "it moves on");
    // With room on it, it takes new data again.
    world.mib.iter_mut().step_by(2).for_each(|mib| *mib = 0);
    let plan = world.plan(2, share("0"));
    world.carry_out(&plan);
    let of_victim = world.owners.iter().filter(|owner| **owner == 1).count();
    assert_eq!(of_victim, usize::from(DATA));
}

fn world() -> impl Strategy<Value = (World, usize, OwnShare)> {
    let mib = prop::collection::vec(prop_oneof![6 => Just(0), 1 => 1_u64..3], 700..900);
    let owners = prop::collection::vec(0_usize..8, 1..40);
    (1_usize..4, 0_usize..6, mib, owners, 0_u32..=20, 1_usize..9).prop_map(
        |(own, victims, mib, owners, share, stay)| {
            let nodes = own + victims;
            let mut world = World::new(own, nodes, 6_000, &mib);
            for (number, owner) in world.owners.iter_mut().enumerate() {
                let wished = owners[number % owners.len()];
                let metadata = number < usize::from(METADATA_PARTITIONS);
                *owner = wished % if metadata { own } else { nodes };
            }
            let share = (f64::from(share) / 20.0).to_string().parse().unwrap();
            (world, stay.clamp(own, nodes), share)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Where memory allows it, whatever the spread was: within a point, or some of the largest
    /// partitions; metadata stays on own nodes and nothing is left to do.
    #[test]
    fn plans_reach_the_share((mut world, stay, own_share) in world()) {
        let plan = world.plan(stay, own_share);
        let metadata = plan.moves().filter(|it| it.partition.is_metadata());
        for step in metadata {
            prop_assert!((0..world.own).any(|at| id(at) == step.to), "{step:?}");
        }
        let room_is_there = plan.left_out == 0;
        world.carry_out(&plan);
        prop_assume!(room_is_there);
        let wanted = if stay == world.own { 1.0 } else { own_share.part() };
        let room = 5_600 * MIB;
        let all = world.bytes(|_| true);
        let fits = all as f64 * wanted <= (room * world.own as u64) as f64
            && all as f64 * (1.0 - wanted) <= (room * (stay - world.own) as u64) as f64;
        prop_assume!(fits);
        let off = (world.own_percent() - wanted * 100.0).abs();
        let lumps = 3.0 * (2 * MIB) as f64 * 100.0 / all.max(1) as f64;
        prop_assert!(off <= 1.0 + lumps, "off by {off} points of {wanted}");
        prop_assert!(world.plan(world.nodes, own_share).is_empty());
    }
}
