//! A forecast on a run that is told by hand: what it advises when it is right, late, and wrong.

use tidefs_control::forecast::{Course, Curve, Forecaster, Pace, Stretch};
use tidefs_control::graph::Rest;
use tidefs_control::workflow::{Doubt, Task, Workflow};
use tidefs_control::{EMPTY_NODE_BYTES, Node, NodeState, Observation, Settings};
use tidefs_model::{ByteSize, NodeClass, NodeId, Time};

const GB: f64 = 1e9;
const NODE: u64 = 10_000_000_000;

fn settings() -> Settings {
    Settings::new("forecast".parse().expect("a policy"), 1, 16, ByteSize(NODE))
}

/// So many nodes, on which so much lies.
fn observed(nodes: u8, bytes: f64) -> Observation {
    let node = |number: u8| Node {
        id: NodeId([number; 20]),
        class: NodeClass::Own,
        state: NodeState::Serving,
        capacity_bytes: NODE,
        used_bytes: EMPTY_NODE_BYTES + (bytes / f64::from(nodes)) as u64,
        partitions: 1,
        received_bytes: 0,
        sent_bytes: 0,
    };
    Observation::new((0..nodes).map(node).collect())
}

/// Stays at 5 GB for 600 s, rises to 95 GB in 900 s, stays for 600 s, falls to 5 GB and stays.
fn forecaster() -> Forecaster {
    let stretch = |course, seconds, from: f64, to: f64| Stretch {
        course,
        seconds,
        from: from * GB,
        to: to * GB,
    };
    Forecaster::new(Curve::of(vec![
        stretch(Course::Stays, 600.0, 5.0, 5.0),
        stretch(Course::Rises, 900.0, 5.0, 95.0),
        stretch(Course::Stays, 600.0, 95.0, 95.0),
        stretch(Course::Falls, 10.0, 95.0, 5.0),
        stretch(Course::Stays, 600.0, 5.0, 5.0),
    ]))
}

/// Follows a run second by second and returns the nodes advised at its end; nodes are there at once.
fn advised(forecaster: &mut Forecaster, from: u64, until: u64, bytes: impl Fn(f64) -> f64) -> u16 {
    let mut nodes = 1;
    for second in from..until {
        let now = Time(second * 1_000_000_000);
        forecaster.observe(now, &observed(nodes as u8, bytes(second as f64) * GB), &settings());
        nodes = forecaster.advice().map_or(nodes, |advice| advice.nodes);
    }
    nodes
}

/// The course that is forecast, with runtimes and sizes times so much.
fn course(second: f64, slower: f64, larger: f64) -> f64 {
    let at = second / slower;
    let bytes = match at {
        at if at < 600.0 => 5.0,
        at if at < 1_500.0 => 5.0 + (at - 600.0) / 10.0,
        at if at < 2_100.0 => 95.0,
        _ => 5.0,
    };
    bytes * larger
}

#[test]
fn nodes_are_wished_for_before_the_memory_is_needed() {
    let mut forecaster = forecaster();
    assert_eq!(advised(&mut forecaster, 0, 500, |at| course(at, 1.0, 1.0)), 1);
    // 10 s before the rise, which is 0.1 GB a second.
    assert!(advised(&mut forecaster, 500, 590, |at| course(at, 1.0, 1.0)) >= 1);
    let before_full = advised(&mut forecaster, 590, 630, |at| course(at, 1.0, 1.0));
    assert!(before_full >= 2, "8 GB of 10 in use and rising: {before_full}");
    // No more than the peak needs, and no less.
    assert_eq!(advised(&mut forecaster, 630, 1_700, |at| course(at, 1.0, 1.0)), 10);
}

#[test]
fn nodes_go_as_soon_as_what_is_alive_fits() {
    let mut forecaster = forecaster();
    advised(&mut forecaster, 0, 2_100, |at| course(at, 1.0, 1.0));
    assert_eq!(advised(&mut forecaster, 2_100, 2_115, |at| course(at, 1.0, 1.0)), 1);
}

#[test]
fn wrong_runtimes_and_sizes_leave_room_for_what_is_there() {
    for slower in [0.5, 1.0, 2.0] {
        for larger in [1.0 / 1.5, 1.0, 1.5] {
            let mut forecaster = forecaster();
            let mut nodes = 1_u16;
            for second in 0..(2_400.0 * slower) as u64 {
                let bytes = course(second as f64, slower, larger);
                let fallen = second as f64 / slower >= 2_100.0;
                let now = Time(second * 1_000_000_000);
                let seen = observed(nodes as u8, bytes * GB);
                forecaster.observe(now, &seen, &settings());
                let advice = forecaster.advice().expect("it is believed");
                let held = f64::from(advice.nodes) * 10.0;
                assert!(fallen || held >= bytes, "{slower}, {larger}: {held} for {bytes}");
                assert!(
                    held <= bytes.max(5.0) * 3.0 + 30.0,
                    "{slower}, {larger}, {second}: {held}"
                );
                nodes = advice.nodes;
            }
        }
    }
}

#[test]
fn a_forecast_that_keeps_being_wrong_is_silent() {
    let mut forecaster = forecaster();
    forecaster.observe(Time(0), &observed(2, 5.0 * GB), &settings());
    for alarm in 0..3 {
        forecaster.node_full(Time((100 + 100 * alarm) * 1_000_000_000));
        // Alarms that belong together count once.
        forecaster.node_full(Time((101 + 100 * alarm) * 1_000_000_000));
    }
    assert!(forecaster.advice().is_some());
    forecaster.node_full(Time(900 * 1_000_000_000));
    assert!(forecaster.advice().is_none() && !forecaster.is_believed());
}

/// One rise within 100 s, and a stay.
fn rises_to(bytes: f64) -> Forecaster {
    let stretch = |course, seconds, from, to| Stretch { course, seconds, from, to };
    Forecaster::new(Curve::of(vec![
        stretch(Course::Rises, 100.0, 0.0, bytes * GB),
        stretch(Course::Stays, 2_000.0, bytes * GB, bytes * GB),
    ]))
}

#[test]
fn what_stands_still_on_full_nodes_waits_for_room() {
    let nodes_after = |full_at: f64| {
        let mut forecaster = rises_to(64.0);
        for second in 0..120 {
            let bytes = (0.64 * f64::from(second)).min(full_at) * GB;
            forecaster.observe(
                Time(second as u64 * 1_000_000_000),
                &observed(4, bytes),
                &settings(),
            );
        }
        forecaster.advice().expect("it is believed").nodes
    };
    // Four nodes are full, and the rest of the rise still comes.
    assert!(nodes_after(39.9) >= 7, "{}", nodes_after(39.9));
    // With room left, what stands still has ended.
    assert!(nodes_after(38.5) <= 5, "{}", nodes_after(38.5));
}

#[test]
fn one_node_less_is_worth_it_for_a_long_time_only() {
    let advised = |seconds: f64| {
        let (from, to) = (110.0 * GB, 110.0 * GB);
        let stretch = Stretch { course: Course::Stays, seconds, from, to };
        let mut forecaster = Forecaster::new(Curve::of(vec![stretch]));
        forecaster.observe(Time(0), &observed(13, to), &settings());
        forecaster.advice().expect("it is believed").nodes
    };
    assert_eq!((advised(4_000.0), advised(150.0)), (12, 13));
}

#[test]
fn nodes_that_came_in_vain_go_and_what_was_told_is_believed_when_it_begins() {
    let begun = |second: f64| 1.0 + 0.64 * (second - 175.0).max(0.0);
    let at = |second| advised(&mut rises_to(64.0), 0, second, begun);
    assert!(at(100) >= 5, "it is told to begin at once: {}", at(100));
    // Thresholds hold one node, and each node may come four leads ahead of its use.
    assert_eq!((at(170), at(176)), (1, 1));
    assert!(at(185) >= 4, "{}", at(185));
}

/// Of a run: twenty tasks that take 20 s each, four at a time, and write so much.
fn rest(each: f64) -> Curve {
    let mut workflow = Workflow::default();
    let stage = workflow.stage("write");
    for _ in 0..20 {
        let writes = vec![workflow.file(each * GB)];
        workflow.task(Task { stage, seconds: 20.0, writes, ..Task::default() });
    }
    let rest = Rest { workflow, ..Rest::default() };
    Curve::of_rest(&rest, 4, 1e12, Pace::default())
}

#[test]
fn a_run_goes_on_as_was_told_of_what_is_still_to_come() {
    // The workflow as it was told first stays where it is for 600 s.
    let mut retold = forecaster();
    assert_eq!(advised(&mut retold, 0, 100, |_| 5.0), 1);
    retold.retell(rest(8.0), false);
    let nodes = advised(&mut retold, 100, 102, |_| 5.0);
    assert!(nodes >= 7, "64 GB come within the 40 s that nodes take: {nodes}");
    // They turn out to be small, as jobs that declared a limit may: then nobody waits for them.
    retold.retell(rest(0.01), false);
    assert_eq!(advised(&mut retold, 102, 160, |_| 5.0), 1);
}

#[test]
fn what_is_in_use_when_a_run_is_told_of_is_none_of_what_is_to_come() {
    let mut late = Forecaster::new(rest(0.5));
    // 60 GB of others; ten more are told, and what rises comes to no more than those.
    let rises = |second: f64| 60.0 + second.min(20.0) * 0.5;
    let mut nodes = 7;
    for second in 0..60 {
        let seen = observed(nodes, rises(second as f64) * GB);
        late.observe(Time(second * 1_000_000_000), &seen, &settings());
        nodes = late.advice().map_or(nodes, |advice| advice.nodes as u8);
        assert!(nodes <= 8, "after {second} s: {nodes}");
    }
}

#[test]
fn of_another_workflow_it_does_not_count_how_often_the_forecast_was_wrong() {
    let mut forecaster = forecaster();
    for alarm in 0..4 {
        forecaster.node_full(Time((100 + 100 * alarm) * 1_000_000_000));
    }
    assert!(!forecaster.is_believed());
    forecaster.retell(rest(1.0), false);
    assert!(!forecaster.is_believed(), "the same workflow, further on");
    forecaster.retell(rest(1.0), true);
    assert!(forecaster.is_believed());
}

/// Of a run: four tasks that run and write 2 GB each, then one that takes long and of which nobody said
/// how much it writes: at most so much, or else as much as another may.
fn rest_with(last: f64, doubt: Doubt) -> Curve {
    let mut workflow = Workflow::default();
    let stage = workflow.stage("write");
    let sizes = [2.0, 2.0, 2.0, 2.0, last];
    let files = sizes.map(|size| workflow.file(size * GB));
    for (at, file) in files.into_iter().enumerate() {
        let (seconds, after) = if at < 4 { (20.0, vec![]) } else { (2_000.0, vec![0, 1, 2, 3]) };
        workflow.task(Task { stage, seconds, writes: vec![file], after, ..Task::default() });
    }
    workflow.doubts.insert(files[4], doubt);
    Curve::of_rest(&Rest { workflow, running: 4, ..Rest::default() }, 4, 1e12, Pace::default())
}

#[test]
fn a_slope_does_not_lead_beyond_what_the_jobs_of_the_graph_write() {
    let rises = |second: f64| second.min(7.0);
    let nodes = |curve| advised(&mut Forecaster::new(curve), 0, 6, rises);
    assert_eq!(nodes(rest_with(2.0, Doubt::Guess)), 1, "a GB a second, and 8 GB are to come");
    // Where of some job nothing is known at all, nobody knows where it ends.
    assert_eq!(nodes(rest_with(0.0, Doubt::Guess)), 5);
}

#[test]
fn what_was_in_use_is_not_expected_again_where_no_such_jobs_come() {
    let falls = |second: f64| if second < 30.0 { 60.0 } else { 1.0 };
    let nodes = |curve| advised(&mut Forecaster::new(curve), 0, 40, falls);
    assert_eq!(nodes(rest_with(4.0, Doubt::AtMost)), 1, "4 GB are to come, and not soon");
    assert_eq!(nodes(rest_with(0.0, Doubt::Guess)), 7, "for 8 leads of 40 s");
}
