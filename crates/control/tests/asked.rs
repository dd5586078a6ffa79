//! What is asked of the controller is decided on nodes as they are, and on nothing that is long gone.

use std::time::Duration;

use tidefs_control::{
    Action, Answer, Command, Controller, Done, Event, Failure, Growth, Hold, Node, NodeState,
    Observation, Refused, Request, RequestId, Settings, TaskId, Verdict,
};
use tidefs_model::{ByteSize, NodeClass, NodeId, Time};

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::from_unix(1_000 + seconds as i64, 0)
}

fn seen(nodes: u8, used_mib: u64) -> Observation {
    let node = |number| Node {
        id: NodeId([number; 20]),
        class: NodeClass::Own,
        state: NodeState::Serving,
        capacity_bytes: 256 * MIB,
        used_bytes: used_mib * MIB,
        partitions: (16_384 / u16::from(nodes)).max(1),
        received_bytes: 0,
        sent_bytes: 0,
    };
    Observation::new((1..=nodes).map(node).collect())
}

/// A controller that has put right what a predecessor left.
fn opened(policy: &str, max: u16) -> Controller {
    let settings = Settings::new(policy.parse().unwrap(), 1, max, ByteSize::mib(256));
    let mut controller = Controller::new(settings).unwrap();
    let commands = controller.apply(at(0), Event::Opened(None));
    controller.apply(at(0), Event::Ended(task(&commands), Ok(Done::Recovered)));
    assert!(controller.is_idle());
    controller
}

fn task(commands: &[Command]) -> TaskId {
    let mut tasks = commands.iter().filter_map(|command| match command {
        Command::Do(task) => Some(task.id),
        _ => None,
    });
    tasks.next_back().expect("something to do")
}

fn answers(commands: &[Command]) -> Vec<&Answer> {
    let answers = commands.iter().filter_map(|command| match command {
        Command::Answer(_, answer) => Some(answer),
        _ => None,
    });
    answers.collect()
}

#[test]
fn a_request_is_decided_on_nodes_that_were_seen_after_it_was_made() {
    let mut controller = opened("static", 4);
    controller.apply(at(1), Event::Observed(at(1), seen(2, 10)));
    let asked = controller.apply(at(2), Event::Request(RequestId(1), Request::Scale(2)));
    assert!(asked.is_empty() && controller.waits_for_a_look(), "{asked:?}");
    // It was under way when the request came.
    let late = controller.apply(at(3), Event::Observed(at(1), seen(2, 10)));
    assert!(late.is_empty() && controller.waits_for_a_look(), "{late:?}");
    let one_died = controller.apply(at(3), Event::Observed(at(3), seen(1, 10)));
    assert!(matches!(one_died[..], [Command::Do(_)]), "one is started: {one_died:?}");
}

#[test]
fn a_writer_is_told_what_was_decided_on_its_alarm_and_not_what_was_before() {
    let mut controller = opened("nso", 2);
    controller.apply(at(1), Event::Observed(at(1), seen(2, 255)));
    let hold = &controller.last_decision().unwrap().verdict;
    assert!(matches!(hold, Verdict::Hold(Hold::AtMaximum { .. })), "{hold:?}");
    controller.apply(at(2), Event::NodeFull(None));
    assert_eq!(controller.growth(), None, "half of the files may be gone by now");
    assert!(controller.waits_for_a_look());
    // Told again while nobody has looked, it does not put the look off.
    controller.apply(at(3), Event::NodeFull(None));
    controller.apply(at(4), Event::Observed(at(2), seen(2, 256)));
    assert_eq!(controller.growth(), Some(Growth::AtMaximum { nodes: 2 }));
}

#[test]
fn what_was_seen_is_decided_on_for_a_few_intervals_and_then_not() {
    let mut controller = opened("nso", 4);
    controller.apply(at(1), Event::Observed(at(1), seen(1, 10)));
    let failure = || Event::NotObserved(Failure::new("no node gives the map"));
    controller.apply(at(2), failure());
    let held = |controller: &Controller| controller.last_decision().unwrap().verdict.clone();
    assert!(!matches!(held(&controller), Verdict::Hold(Hold::Blind { .. })));
    controller.apply(at(5), Event::Request(RequestId(1), Request::Scale(3)));
    let mut commands = Vec::new();
    for second in 6..=20 {
        commands.extend(controller.apply(at(second), Event::Tick));
    }
    let Verdict::Hold(Hold::Blind { age, why }) = held(&controller) else {
        panic!("{:?}", held(&controller))
    };
    assert_eq!((age, why.as_str()), (19 * SECOND, "no node gives the map"));
    let says = controller.last_decision().unwrap().to_string();
    assert!(says.contains("last observed 19 s ago") && says.contains("no node gives"), "{says}");
    assert!(
        matches!(answers(&commands)[..], [Answer::Refused(Refused::NotObserved { .. })]),
        "{commands:?}"
    );
    // As soon as they are seen, it goes on.
    controller.apply(at(21), Event::Observed(at(21), seen(1, 255)));
    assert!(controller.reconfiguration().is_some());
}

/// Has what is under way fail; the second at which it was given up.
fn fail_to_change(controller: &mut Controller, mut second: u64, mut todo: Vec<Command>) -> u64 {
    for _ in 0..1_000 {
        second += 1;
        let mut next = controller.apply(at(second), Event::Tick);
        for command in todo {
            let Command::Do(task) = command else { continue };
            let result = match task.action {
                Action::Record(_) => Ok(Done::Recorded),
                Action::Erase(_) => Ok(Done::Erased),
                Action::StartNode => Err(Failure::new("no server program")),
                Action::Survey => Err(Failure::new("no node says what it holds")),
                action => panic!("{action:?}"),
            };
            next.extend(controller.apply(at(second), Event::Ended(task.id, result)));
        }
        if controller.is_idle() {
            return second;
        }
        todo = next;
    }
    panic!("it does not end");
}

/// A writer asks again and again, and all that is tried for it fails, until there is no hope: when that
/// is, and what it heard.
fn hope(controller: &mut Controller, observed: &Observation) -> (u64, Vec<Growth>) {
    let (mut second, mut heard) = (1, Vec::new());
    for _ in 0..1_000 {
        second += 1;
        controller.apply(at(second), Event::NodeFull(None));
        let todo = controller.apply(at(second), Event::Observed(at(second), observed.clone()));
        let growth = controller.growth().expect("a look was taken");
        heard.push(growth.clone());
        if !growth.is_hopeful() {
            break;
        }
        if growth == Growth::Underway {
            second = fail_to_change(controller, second, todo);
        }
    }
    (second, heard)
}

#[test]
fn a_writer_waits_while_a_node_cannot_be_started_and_not_for_ever() {
    let mut controller = opened("nso", 2);
    let (second, heard) = hope(&mut controller, &seen(1, 256));
    let Some((Growth::Failing { failures, why }, before)) = heard.split_last() else {
        panic!("{heard:?}")
    };
    assert_eq!((*failures, why.as_str()), (8, "no server program"));
    assert!(before.iter().any(|it| matches!(it, Growth::TriedAgain { .. })), "{before:?}");
    assert!(second > 120, "hope for {second} s");
    // It is still tried, and who asks after that may hope again.
    controller.apply(at(second + 100), Event::NodeFull(None));
    controller.apply(at(second + 100), Event::Observed(at(second + 100), seen(1, 256)));
    assert_eq!(controller.growth(), Some(Growth::Underway));
}

#[test]
fn a_writer_does_not_wait_for_ever_for_a_journal_that_cannot_be_closed() {
    let mut controller = opened("nso", 2);
    controller.apply(at(1), Event::NodeFull(None));
    let mut todo = controller.apply(at(1), Event::Observed(at(1), seen(1, 256)));
    let mut heard = Vec::new();
    for second in 2..600 {
        let mut next = controller.apply(at(second), Event::Tick);
        for command in todo {
            let Command::Do(task) = command else { continue };
            let result = match task.action {
                Action::Record(_) => Ok(Done::Recorded),
                Action::StartNode => Err(Failure::new("no server program")),
                Action::Erase(_) => Err(Failure::new("the journal's node does not answer")),
                action => panic!("{action:?}"),
            };
            next.extend(controller.apply(at(second), Event::Ended(task.id, result)));
        }
        todo = next;
        controller.apply(at(second), Event::NodeFull(None));
        heard.push(controller.growth());
        if heard.last().unwrap().as_ref().is_some_and(|growth| !growth.is_hopeful()) {
            break;
        }
    }
    assert_eq!(heard[0], Some(Growth::Underway));
    let Some(Some(Growth::Failing { failures: 8, why })) = heard.last() else {
        panic!("{heard:?}")
    };
    assert!(why.contains("closing the journal") && why.contains("does not answer"), "{why}");
}

/// One node is full and the other has room, and there may be no third.
#[test]
fn where_only_spreading_helps_a_writer_hopes_while_that_fails_and_not_for_ever() {
    let mut controller = opened("nso", 2);
    let mut nodes = seen(2, 256).nodes().to_vec();
    nodes[1].used_bytes = 10 * MIB;
    let (_, heard) = hope(&mut controller, &Observation::new(nodes));
    let Some((Growth::Failing { failures: 8, why }, before)) = heard.split_last() else {
        panic!("{heard:?}")
    };
    assert!(why.contains("no node says"), "{why}");
    assert!(before.iter().any(|it| matches!(it, Growth::TriedAgain { .. })), "{before:?}");
}
