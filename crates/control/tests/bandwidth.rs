//! Shares that follow bandwidths, and when they follow them anew. Time is an argument, so a quarter
//! of an hour takes no time here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tidefs_control::{
    Action, Bandwidths, Capacity, Cause, Command, Controller, Done, EMPTY_NODE_BYTES, Event, Held,
    Hold, Inventory, Moved, Node, NodeState, Observation, Reason, Request, RequestId, Settings,
    Shift, Spreading, TaskId, Verdict, Watch, check, data_shares, plan,
};
use tidefs_model::{ByteSize, METADATA_PARTITIONS, NodeClass, NodeId, PARTITIONS, Time};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 1024 * MIB;
const WATCH: Watch = Watch { window: Duration::from_secs(900), drop_percent: 20 };

fn id(byte: u8) -> NodeId {
    NodeId([byte; 20])
}

fn at(seconds: i64) -> Time {
    Time::from_unix(1_000 + seconds, 0)
}

fn node(byte: u8, used: u64) -> Node {
    Node {
        id: id(byte),
        class: NodeClass::Own,
        state: NodeState::Serving,
        capacity_bytes: MEMORY,
        used_bytes: used,
        partitions: PARTITIONS / 4,
        received_bytes: 0,
        sent_bytes: 0,
    }
}

fn ids(nodes: u8) -> Vec<NodeId> {
    (1..=nodes).map(id).collect()
}

/// Measures every minute from `from` to `to`, in megabytes a second by node.
fn measure(bandwidths: &mut Bandwidths, from: i64, to: i64, rates: &[u64]) {
    for seconds in (from..=to).step_by(60) {
        let rates: Vec<_> =
            rates.iter().enumerate().map(|(node, rate)| (id(node as u8 + 1), rate * MIB)).collect();
        bandwidths.measured(at(seconds), &rates, |_| true, &WATCH);
    }
}

/// Four nodes of 100 that shares rest on since second 0, and that measure otherwise afterwards.
fn after(seconds: i64, rates: &[u64]) -> Option<Shift> {
    let mut bandwidths = Bandwidths::default();
    measure(&mut bandwidths, -60, 0, &[100; 4]);
    bandwidths.adopt(at(0), &WATCH);
    measure(&mut bandwidths, 60, seconds, rates);
    bandwidths.shift(at(seconds), &ids(4), &WATCH)
}

#[test]
fn a_fall_counts_when_it_has_lasted_for_a_window() {
    let fallen = Shift { node: id(2), before: Some(100 * MIB), now: 75 * MIB };
    assert_eq!(after(960, &[100, 75, 100, 100]), Some(fallen));
    assert_eq!(after(840, &[100, 75, 100, 100]), None, "it has not lasted");
    assert_eq!(after(960, &[100, 85, 100, 100]), None, "less than a fifth");
    assert_eq!(after(1_800, &[70; 4]), None, "all links are slower alike");
    let most = Shift { node: id(3), before: Some(100 * MIB), now: 70 * MIB };
    assert_eq!(after(960, &[71, 71, 70, 100]), Some(most), "the fourth is the fastest now");
    let risen = Shift { node: id(3), before: Some(100 * MIB), now: 200 * MIB };
    assert_eq!(after(960, &[100, 90, 200, 100]), Some(risen));
}

#[test]
fn bandwidths_that_measuring_hardly_tells_apart_are_alike() {
    let mut bandwidths = Bandwidths::default();
    measure(&mut bandwidths, 0, 0, &[100, 85, 95, 100]);
    bandwidths.adopt(at(0), &WATCH);
    assert!(bandwidths.planned().values().all(|rate| *rate == 95 * MIB), "{bandwidths:?}");
    measure(&mut bandwidths, 60, 960, &[100, 75, 100, 100]);
    let fallen = Shift { node: id(2), before: Some(95 * MIB), now: 75 * MIB };
    assert_eq!(bandwidths.shift(at(960), &ids(4), &WATCH), Some(fallen));
}

/// Of links that change at one moment, those that are measured right before it are seen to change a
/// measurement later. All count together, or shares would be made with some of the old bandwidths.
#[test]
fn links_that_change_at_once_count_at_once() {
    for later in [&[][..], &[0], &[1], &[2, 3]] {
        let mut bandwidths = Bandwidths::default();
        measure(&mut bandwidths, -60, 0, &[100; 4]);
        bandwidths.adopt(at(0), &WATCH);
        measure(&mut bandwidths, 60, 1_800, &[100; 4]);
        let changed = [400, 25, 300, 50];
        let mut first = changed;
        later.iter().for_each(|&node| first[node] = 100);
        let mut spread = None;
        for seconds in (1_860..=3_600).step_by(60) {
            let rates = if seconds == 1_860 { first } else { changed };
            measure(&mut bandwidths, seconds, seconds, &rates);
            // With the oldest measurement at the edge of the window, and beyond it.
            for seconds in [seconds, seconds + 30] {
                if spread.is_none() && bandwidths.shift(at(seconds), &ids(4), &WATCH).is_some() {
                    bandwidths.adopt(at(seconds), &WATCH);
                    spread = Some(seconds);
                }
            }
        }
        let planned: Vec<_> = ids(4).iter().map(|id| bandwidths.planned()[id] / MIB).collect();
        assert_eq!(planned, changed, "{later:?} a measurement later, after {spread:?} s");
    }
}

#[test]
fn a_moment_of_little_bandwidth_is_none_of_a_fall() {
    let mut bandwidths = Bandwidths::default();
    measure(&mut bandwidths, 0, 0, &[100; 4]);
    bandwidths.adopt(at(0), &WATCH);
    for seconds in (60..=3_600).step_by(60) {
        let slow = if seconds / 300 % 3 == 0 { 10 } else { 100 };
        measure(&mut bandwidths, seconds, seconds, &[100, slow, 100, 100]);
        assert_eq!(bandwidths.shift(at(seconds), &ids(4), &WATCH), None, "after {seconds} s");
    }
}

#[test]
fn a_window_that_is_shorter_than_measuring_takes_is_longer_then() {
    let watch = Watch { window: Duration::from_secs(5), ..WATCH };
    let mut bandwidths = Bandwidths::default();
    let mut measure = |seconds: i64, rate: u64| {
        let rates: Vec<_> = ids(3).into_iter().zip([100, rate, 100]).collect();
        bandwidths.measured(at(seconds), &rates, |_| true, &watch);
        if seconds == 0 {
            bandwidths.adopt(at(0), &WATCH);
        }
        bandwidths.shift(at(seconds), &ids(3), &watch)
    };
    let found = [(0, 100), (4, 50), (8, 50), (12, 50)].map(|(at, rate)| measure(at, rate));
    let fallen = Shift { node: id(2), before: Some(100), now: 50 };
    assert_eq!(found, [None, None, None, Some(fallen)]);
}

#[test]
fn what_was_never_planned_with_counts_at_once() {
    let mut bandwidths = Bandwidths::default();
    assert_eq!(bandwidths.shift(at(0), &ids(4), &WATCH), None, "nothing was measured");
    measure(&mut bandwidths, 60, 60, &[100, 50, 100, 100]);
    let first = Shift { node: id(1), before: None, now: 100 * MIB };
    assert_eq!(bandwidths.shift(at(60), &ids(4), &WATCH), Some(first));
    bandwidths.adopt(at(60), &WATCH);
    assert_eq!(bandwidths.shift(at(60), &ids(4), &WATCH), None);
    assert_eq!(bandwidths.planned()[&id(2)], 50 * MIB);
    // One that cannot be measured holds nothing up.
    assert_eq!(bandwidths.shift(at(60), &ids(5), &WATCH), None);
    // One that joins is known as soon as it was measured.
    let newcomer = Shift { node: id(5), before: None, now: 20 * MIB };
    measure(&mut bandwidths, 61, 61, &[100, 50, 100, 100, 20]);
    assert_eq!(bandwidths.shift(at(61), &ids(5), &WATCH), Some(newcomer));
}

#[test]
fn shares_follow_equation_4_1_as_far_as_memory_allows() {
    let memory = [MEMORY; 4];
    let rates = [Some(400), Some(200), Some(100), Some(100)];
    let parts = |bytes| data_shares(&memory, &rates, bytes).into_iter().map(|it| it.part);
    assert_eq!(parts(MEMORY).collect::<Vec<_>>(), [0.5, 0.25, 0.125, 0.125]);
    // 60 % of one of four equal nodes is 30 % of as much data as half of them hold.
    let bound = data_shares(&memory, &rates, 2 * MEMORY);
    assert_eq!((bound[0].reason, bound[1].reason), (Reason::MemoryBound, Reason::MemoryBound));
    assert!((bound[0].part - 0.3).abs() < 1e-9, "{bound:?}");
    assert!((bound[2].part - 0.2).abs() < 1e-9, "{bound:?}");
    // Who was not measured has the mean of those who were; with none known, memory counts.
    let known = data_shares(&memory, &[Some(300), None, Some(100), None], MIB);
    assert!((known[1].part - 0.25).abs() < 1e-9, "{known:?}");
    let unknown = data_shares(&[MEMORY, 3 * MEMORY], &[None, None], MIB);
    assert_eq!((unknown[1].part, unknown[1].reason), (0.75, Reason::Memory));
}

fn inventory(rates: &[u64], bytes_each: u64) -> Inventory {
    let nodes = rates.len();
    let held = |partition: u16| {
        let owner = id((usize::from(partition) % nodes) as u8 + 1);
        let data = partition >= METADATA_PARTITIONS;
        Held { owner: Some(owner), bytes: Some(if data { bytes_each } else { 0 }) }
    };
    let held: Vec<_> = (0..PARTITIONS).map(held).collect();
    let mut used = vec![EMPTY_NODE_BYTES; nodes];
    for (partition, held) in held.iter().enumerate() {
        used[partition % nodes] += held.bytes.unwrap_or(0);
    }
    let nodes = used.iter().enumerate().map(|(at, used)| node(at as u8 + 1, *used)).collect();
    let rates = rates.iter().enumerate().map(|(at, rate)| (id(at as u8 + 1), *rate));
    let rates: BTreeMap<_, _> = rates.collect();
    Inventory::new(nodes, &held).unwrap().with_bandwidths(rates)
}

/// How many partitions of metadata and of data each node holds when the plan has been carried out.
fn carried_out(
    before: &Inventory,
    spreading: &Spreading,
) -> (Inventory, BTreeMap<NodeId, [u32; 2]>) {
    let made = plan(before, &BTreeSet::new(), spreading).unwrap();
    assert_eq!(made.left_out, 0, "{made}");
    assert_eq!(check(&made, before), []);
    let mut owners: Vec<_> = before.partitions().map(|it| before.owner(it)).collect();
    for step in made.moves() {
        owners[usize::from(step.partition.number())] = Some(step.to);
    }
    let (mut held, mut counts) = (Vec::new(), BTreeMap::<NodeId, [u32; 2]>::new());
    for (partition, owner) in before.partitions().zip(owners) {
        held.push(Held { owner, bytes: Some(before.bytes(partition)) });
        counts.entry(owner.unwrap()).or_default()[usize::from(!partition.is_metadata())] += 1;
    }
    let rates = before.nodes().iter().filter_map(|it| Some((it.id, before.bandwidth(it.id)?)));
    let rates = rates.collect();
    (Inventory::new(before.nodes().to_vec(), &held).unwrap().with_bandwidths(rates), counts)
}

#[test]
fn data_and_metadata_follow_bandwidth() {
    let spreading = Spreading { by: Capacity::Bandwidth, ..Spreading::default() };
    let (_, counts) = carried_out(&inventory(&[50, 10, 20, 20], 0), &spreading);
    let all = [METADATA_PARTITIONS, PARTITIONS - METADATA_PARTITIONS].map(f64::from);
    for (byte, part) in [(1, 0.5), (2, 0.1), (3, 0.2), (4, 0.2)] {
        for (held, all) in counts[&id(byte)].into_iter().zip(all) {
            let off = (f64::from(held) - part * all).abs();
            assert!(off <= 1.0 + all * part / 100.0, "{counts:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_by_bandwidth_leaves_nothing_to_do(
        rates in prop::collection::vec(1_u64..1_000, 2..8),
        kib_each in 0_u64..30,
    ) {
        let spreading = Spreading { by: Capacity::Bandwidth, ..Spreading::default() };
        let (after, _) = carried_out(&inventory(&rates, kib_each << 10), &spreading);
        let again = plan(&after, &BTreeSet::new(), &spreading).unwrap();
        prop_assert_eq!(again.partitions_moved(), 0, "{}", again);
    }

    #[test]
    fn shares_are_parts_and_within_memory(
        nodes in prop::collection::vec((1_u64..4_096, prop::option::of(1_u64..1_000_000)), 1..12),
        used_percent in 0_u64..95,
    ) {
        let memory: Vec<_> = nodes.iter().map(|(mib, _)| mib * MIB).collect();
        let rates: Vec<_> = nodes.iter().map(|(_, rate)| *rate).collect();
        let all: u64 = memory.iter().sum();
        let bytes = all / 100 * used_percent;
        let shares = data_shares(&memory, &rates, bytes);
        let sum: f64 = shares.iter().map(|share| share.part).sum();
        prop_assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        let most = f64::max(0.6, used_percent as f64 / 100.0 + 0.05) + 1e-6;
        for (share, memory) in shares.iter().zip(memory) {
            prop_assert!(share.part >= 0.0 && share.part * bytes as f64 <= memory as f64 * most);
        }
    }
}

/// A controller on four nodes, past its opening.
fn controller() -> Controller {
    let mut settings = Settings::new("static".parse().unwrap(), 4, 4, ByteSize(MEMORY));
    settings.spreading.by = Capacity::Bandwidth;
    settings.watch = Some(WATCH);
    let mut controller = Controller::new(settings).unwrap();
    let opened = controller.apply(at(0), Event::Opened(None));
    let [Command::Do(task)] = &opened[..] else { panic!("{opened:?}") };
    controller.apply(at(0), Event::Ended(task.id, Ok(Done::Recovered)));
    controller
}

/// Observes nodes that use so many MiB, and says what was decided.
fn observe(controller: &mut Controller, seconds: i64, used: &[u64]) -> Verdict {
    let nodes = used.iter().enumerate().map(|(at, mib)| node(at as u8 + 1, mib * MIB)).collect();
    let now = at(seconds);
    let commands = controller.apply(now, Event::Observed(now, Observation::new(nodes)));
    let records = commands.iter().filter(
        |command| matches!(command, Command::Do(task) if matches!(task.action, Action::Record(_))),
    );
    let verdict = controller.last_decision().unwrap().verdict.clone();
    assert_eq!(records.count() == 1, !matches!(verdict, Verdict::Hold(_)), "{verdict:?}");
    verdict
}

#[test]
fn a_controller_spreads_anew_when_it_knows_the_bandwidths() {
    let mut controller = controller();
    let verdict = observe(&mut controller, 1, &[10; 4]);
    assert!(matches!(verdict, Verdict::Hold(Hold::Fixed { .. })), "{verdict:?}");
    let rates: Vec<_> = ids(4).into_iter().zip([50 * MIB, 10 * MIB, 20 * MIB, 20 * MIB]).collect();
    controller.apply(at(2), Event::Measured(rates));
    let verdict = &controller.last_decision().unwrap().verdict;
    let Verdict::Rebalance { cause: Cause::Bandwidth { before: None, .. } } = verdict else {
        panic!("{verdict:?}");
    };
    let shares: Vec<_> = controller.shares().iter().map(|(_, share)| share.part).collect();
    assert_eq!(shares, [0.5, 0.1, 0.2, 0.2]);
}

#[test]
fn a_node_that_is_fuller_for_its_bandwidth_is_let_be_until_it_is_nearly_full() {
    let mut controller = controller();
    for (seconds, used) in [(1, [700, 100, 100, 100]), (20, [700, 100, 100, 100])] {
        let verdict = observe(&mut controller, seconds, &used);
        assert!(matches!(verdict, Verdict::Hold(_)), "{verdict:?}");
    }
    observe(&mut controller, 30, &[900, 100, 100, 100]);
    let verdict = observe(&mut controller, 36, &[900, 100, 100, 100]);
    assert!(matches!(verdict, Verdict::Rebalance { cause: Cause::Uneven { .. } }), "{verdict:?}");
}

#[test]
fn a_writer_that_meets_a_node_full_for_its_bandwidth_has_it_spread_at_once() {
    let mut controller = controller();
    observe(&mut controller, 1, &[1_000, 100, 100, 100]);
    controller.apply(at(1), Event::NodeFull(None));
    let verdict = controller.last_decision().unwrap().verdict.clone();
    assert!(matches!(verdict, Verdict::Rebalance { cause: Cause::Uneven { .. } }), "{verdict:?}");
}

/// What is to be done next, and its name.
fn task(commands: &[Command]) -> (TaskId, Action) {
    let mut tasks = commands.iter().filter_map(|command| match command {
        Command::Do(task) => Some((task.id, task.action.clone())),
        _ => None,
    });
    tasks.next().unwrap_or_else(|| panic!("nothing to do: {commands:?}"))
}

/// A lender comes first, and what its coming kept from being done is done when it has its node back.
#[test]
fn a_rebalance_that_ended_early_for_a_lender_does_not_count_as_done() {
    let mut controller = controller();
    let spread = inventory(&[50; 4], 1 << 14);
    let mut nodes = spread.nodes().to_vec();
    let lent = Node { class: NodeClass::Victim, partitions: 1, ..node(9, EMPTY_NODE_BYTES) };
    nodes.push(lent);
    let observed = Observation::new(nodes.clone());
    controller.apply(at(1), Event::Observed(at(1), observed.clone()));
    let rates: Vec<_> = ids(4).into_iter().zip([50 * MIB, 10 * MIB, 20 * MIB, 20 * MIB]).collect();
    let (mut id, mut action) = task(&controller.apply(at(2), Event::Measured(rates)));
    let held = spread.partitions().map(|it| Held { owner: spread.owner(it), bytes: Some(1 << 14) });
    let survey = Inventory::new(nodes, &held.collect::<Vec<_>>()).unwrap();
    while !matches!(action, Action::Move(_)) {
        let done = match action {
            Action::Record(_) => Done::Recorded,
            Action::Survey => Done::Surveyed(survey.clone()),
            action => panic!("{action:?}"),
        };
        (id, action) = task(&controller.apply(at(3), Event::Ended(id, Ok(done))));
    }
    assert_eq!(controller.bandwidths().planned().len(), 4);
    let back = Request::GiveBack(lent.id);
    let asked = controller.apply(at(4), Event::Request(RequestId(1), back));
    assert!(asked.contains(&Command::BreakOff), "{asked:?}");
    let moved = Done::Moved { moved: Moved::default(), failure: None, crowded: None };
    let (id, action) = task(&controller.apply(at(5), Event::Ended(id, Ok(moved))));
    assert!(matches!(action, Action::Erase(_)), "{action:?}");
    controller.apply(at(6), Event::Ended(id, Ok(Done::Erased)));
    assert!(controller.bandwidths().planned().is_empty(), "the shares rest on nothing yet");
    controller.apply(at(7), Event::Observed(at(7), observed));
    let verdict = &controller.last_decision().unwrap().verdict;
    assert!(matches!(verdict, Verdict::Shrink { .. }), "the lender first: {verdict:?}");
}
