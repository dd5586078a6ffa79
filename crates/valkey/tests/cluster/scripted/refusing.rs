//! Nodes that let nobody in: busy ones, and one that is gone for newcomers alone.

use super::*;

/// How long a node that was silent is left alone.
const DOWN_FOR: Duration = Duration::from_secs(1);

impl Scripted {
    /// Reads while another reader has the only connection and the node has no time for one more.
    fn read_beside_another(&self) -> Result<Vec<u8>, StoreError> {
        self.will(&[Turn::Hold]);
        self.script.lock().unwrap().left_waiting = 1;
        thread::scope(|scope| {
            let other = scope.spawn(|| read(&self.store, STRIPE, 4));
            while !self.is_through() {
                thread::sleep(Duration::from_millis(1));
            }
            let found = read(&self.store, STRIPE, 4);
            // Or else the other one would wait for it.
            self.script.lock().unwrap().left_waiting = 0;
            assert_eq!(other.join().unwrap().unwrap(), b"kept");
            found
        })
    }

    /// Does something while another reader waits on the only connection; he has his answer then.
    fn beside_one_who_waits<T>(&self, act: impl FnOnce() -> T) -> T {
        self.will(&[Turn::Hold]);
        self.script.lock().unwrap().holds = true;
        thread::scope(|scope| {
            let other = scope.spawn(|| read(&self.store, STRIPE, 4));
            while !self.is_through() {
                thread::sleep(Duration::from_millis(1));
            }
            let done = act();
            self.script.lock().unwrap().holds = false;
            assert_eq!(other.join().unwrap().unwrap(), b"kept");
            done
        })
    }

    /// Nobody listens there any more; who was let in is served.
    fn let_nobody_in(&self, number: u8) {
        let socket = self.directory.path().join(format!("node-{number}/s"));
        fs::remove_file(&socket).unwrap();
        drop(UnixListener::bind(&socket).unwrap());
    }
}

/// Or else some of many hosts that join at once would be told that the nodes do not answer.
#[test]
fn a_node_that_has_no_time_for_the_first_connections_is_asked_again() {
    let timeouts =
        Timeouts { connect: Duration::from_millis(50), reply: Duration::from_secs(3_600) };
    let nodes = Scripted::start_busy(&[view(&[1], 1)], timeouts, 2).unwrap();
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
}

/// Or else what a busy node refused once would be taken, the next time, for a death of long ago.
#[test]
fn a_node_that_answers_has_not_been_down_since_it_refused_a_connection() {
    let timeouts = Timeouts { connect: Duration::from_millis(200), reply: Duration::from_secs(2) };
    let nodes = Scripted::start_busy(&[view(&[1], 1)], timeouts, 0).unwrap();
    assert_eq!(nodes.read_beside_another().unwrap(), b"kept");
    let refused = Instant::now();
    // Longer than what is new, and not so long that nobody would have tried for the time of an answer.
    while refused.elapsed() < timeouts.reply + DOWN_FOR / 2 {
        assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(nodes.read_beside_another().unwrap(), b"kept");
}

#[test]
fn a_node_that_nobody_asked_for_long_has_its_time_to_answer_again() {
    let timeouts = Timeouts { connect: Duration::from_millis(200), reply: Duration::from_secs(2) };
    let nodes = Scripted::start_busy(&[view(&[1], 1)], timeouts, 0).unwrap();
    nodes.will(&[Turn::HangUp]);
    nodes.script.lock().unwrap().left_waiting = u32::MAX;
    assert!(matches!(read(&nodes.store, STRIPE, 4), Err(StoreError::Unavailable { .. })));
    // More than the second for which a node that was silent is left alone, and the time that it has to answer.
    thread::sleep(timeouts.reply * 2);
    nodes.script.lock().unwrap().left_waiting = 1;
    assert_eq!(read(&nodes.store, STRIPE, 4).unwrap(), b"kept");
}

#[test]
fn a_node_that_never_has_time_is_told_of() {
    let short = Duration::from_millis(50);
    let timeouts = Timeouts { connect: short, reply: short };
    let nodes = Scripted::start_busy(&[view(&[1], 1)], timeouts, u32::MAX).map(drop);
    assert!(matches!(nodes, Err(ConnectError::Store(StoreError::Unavailable { .. }))));
}

/// Or else a program would hear that a node is gone whose partitions others hold by now.
#[test]
fn who_is_not_let_in_where_others_were_answered_meanwhile_looks_for_who_took_over() {
    let (before, after) = (view(&[1, 2], 1), view(&[1, 2], 2));
    let nodes = Scripted::start(&[before.clone(), before]);
    nodes.let_nobody_in(1);
    let refused = nodes.beside_one_who_waits(|| read(&nodes.store, STRIPE, 4));
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    let found = nodes.beside_one_who_waits(|| {
        nodes.script.lock().unwrap().views = vec![after.clone(), after];
        read(&nodes.store, STRIPE, 4)
    });
    assert_eq!(found.unwrap(), b"kept");
    assert_eq!(nodes.asked(), [2, 1]);
}
