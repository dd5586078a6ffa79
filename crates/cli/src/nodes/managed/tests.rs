//! What becomes of managers that end, of rivals, and of an owner whom too few hear.

use tidefs_model::ByteSize;
use tidefs_valkey::{ClusterDescription, ClusterSpec, Lifetime, Network, Secrets};

use super::*;
use crate::lending::{Found, Term, Voters};

#[test]
fn managers_that_end_one_after_the_other_and_add_nothing_end_hope() {
    let begun = Instant::now();
    let mut state = State::default();
    let mut alarm = |life, finished, seconds| {
        state.life = life;
        for started_unix_ns in 0..finished {
            let one = ReportedReconfiguration { started_unix_ns, ..Default::default() };
            state.finished.hear(one);
        }
        state.ended_in_vain(begun + Duration::from_secs(seconds))
    };
    let most = u64::from(ENDED_MOST);
    assert!((1..=most + 1).all(|life| alarm(life, 0, life).is_none()));
    assert_eq!(alarm(most + 2, 0, most + 2), Some(most + 1));
    assert_eq!(alarm(most + 2, 1, most + 3), None, "a node has come");
    assert_eq!(alarm(2 * most + 3, 1, most + 4), Some(most + 1));
    assert_eq!(alarm(2 * most + 3, 1, most + 60), None, "other writers");
}

fn supervision(
    paths: &Paths,
    rival: impl Fn(&Claim) -> Presence + Send + Sync + 'static,
) -> Supervision {
    let spec = ClusterSpec {
        server: "/bin/false".into(),
        directory: paths.nodes(),
        hosts: Vec::new(),
        nodes: 0,
        node_memory: ByteSize::mib(32),
        head_room: ByteSize::mib(4),
        secrets: Secrets::from_seed(&[1; 32]),
        network: Network::Trusted,
        seed: [0; 32],
        lifetime: Lifetime::Starter,
    };
    let nodes = LocalNodes::new(spec, paths.clone(), ClusterDescription { nodes: Vec::new() });
    let size = Size {
        nodes: None,
        each_bytes: 0,
        head_room_bytes: 0,
        elasticity: Default::default(),
        nodes_here: None,
        listen: None,
        lenders: false,
        trusts_network: true,
        hosts: Vec::new(),
        sealed: false,
        delete_dead: false,
        provision: None,
        server: None,
    };
    let order = Order {
        directory: paths.directory.clone(),
        secret: String::new(),
        size,
        clock: SteadyClock::start(),
        age: nodes.age(),
        claim: nodes.claimed(),
        start: Duration::ZERO,
    };
    let (rival, others, state) = (Box::new(rival), Box::new(|| None), Mutex::default());
    let ended = Condvar::new();
    Supervision { paths: paths.clone(), order, nodes, rival, others, state, ended }
}

/// What it is told meanwhile, such as that a host has left, may be of hosts that have gone to somebody else.
#[test]
fn whoever_too_few_hear_may_have_a_rival() {
    let folder = tempfile::tempdir().unwrap();
    let supervision =
        supervision(&Paths::new(folder.path().to_owned()), |_: &Claim| Presence::Silent);
    assert!(!supervision.is_rivalled());
    let hosts = supervision.nodes.hosts();
    hosts.begin_term(Term::default(), Vec::new(), Voters::of_three(), Found::default());
    assert!(supervision.is_rivalled(), "at once, and not at the next look at the voters");
    assert!(supervision.watch_voters() && supervision.stands_still());
    hosts.end(Duration::ZERO);
    assert!(!supervision.watch_voters(), "hosts go when the file system ends");
    assert!(supervision.is_rivalled(), "as it was when that began");
}

#[test]
fn an_owner_claims_more_than_one_that_has_ended_and_gives_way_to_one_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let found = Mutex::new(vec![Presence::There, Presence::Silent, Presence::Ended]);
    let rival = move |_: &Claim| found.lock().unwrap().pop().expect("it was asked before");
    let supervision = supervision(&Paths::new(folder.path().to_owned()), rival);
    let by = Claim { count: 4, drawn: u64::MAX, place: "there".to_owned() };
    assert!(!supervision.gives_way(by.clone()) && supervision.nodes.claimed() > by);
    assert_eq!(supervision.outlived(), None);
    let by = Claim { count: 6, ..by };
    assert!(supervision.gives_way(by.clone()), "after it was silent");
    assert_eq!((supervision.outlived(), supervision.awaits()), (Some(by.clone()), None));
    assert!(supervision.nodes.claimed() < by);
}
