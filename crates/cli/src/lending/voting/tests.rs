//! Random orders of messages that are lost, late and doubled, of processes that stand still and end, and of elections.

use super::*;

const TICK: Duration = Duration::from_millis(250);
const HOSTS: usize = 5;

/// A draw that a seed repeats.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn is(&mut self, in_hundred: u64) -> bool {
        self.below(100) < in_hundred
    }
}

/// What is left out of the rules, to see that it is missed.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// A voter that begins anew votes as the one that it was.
    Forgets,
    /// A voter hears whoever comes.
    HearsAll,
    /// A voter agrees whether it has heard somebody or not.
    GrantsAll,
    /// The lease begins when an answer comes.
    CountsArrival,
    /// Others vote before those know that voted until then.
    TellsNobody,
    /// A host votes as soon as it has entered. Nobody decides beside another for that, but fewer are elected.
    CountsAll,
}

#[derive(Clone, Debug)]
enum Word {
    Says { term: Term, voters: Voters, heirs: Vec<usize>, at: Duration },
    Hears { term: Term, version: Version, said: Duration },
    Asks { term: Term, version: Version },
    Grants { term: Term },
}

struct Process {
    voter: Voter,
    support: Support,
    voters: Voters,
    /// The line as it was told last.
    heirs: Vec<usize>,
    /// When all is in service there that was asked for.
    stays_from: Duration,
    owner: Option<(Term, Lease)>,
    /// Whom it has heard.
    follows: usize,
    /// Time in which it ran.
    ran: Duration,
    still_until: Duration,
    is_dead: bool,
    /// It is standing for this term, with these.
    stands: Option<(Term, BTreeSet<Voter>)>,
}

struct World {
    chance: Chance,
    now: Duration,
    processes: Vec<Process>,
    /// Those that have entered.
    members: usize,
    /// Those that have come to the line, in order; some are nobody's heirs any more.
    line: Vec<usize>,
    came: u64,
    /// Hosts that enter stay, and all is in service there at once.
    are_quick: bool,
    under_way: Vec<(Duration, usize, usize, Word)>,
    broken: Broken,
    /// Pairs between which nothing goes.
    cut: BTreeSet<(usize, usize)>,
    is_calm: bool,
}

impl World {
    fn new(seed: u64, broken: Broken) -> World {
        let process = |number: usize| Process {
            voter: (number > 0).then_some(Rank::BEHIND_ALL),
            support: Support::begin(Term::default(), Duration::ZERO),
            voters: Voters::default(),
            heirs: Vec::new(),
            stays_from: Duration::ZERO,
            owner: (number == 0).then(|| (Term::default(), Lease::default())),
            follows: 0,
            ran: Duration::ZERO,
            still_until: Duration::ZERO,
            is_dead: false,
            stands: None,
        };
        let mut processes: Vec<_> = (0..=HOSTS).map(process).collect();
        processes[0].support.takes(Term::default(), Duration::ZERO);
        let mut chance = Chance(seed);
        // Whether others vote that those before them do not know matters where many come at once.
        let are_quick = chance.is(50) || broken == Broken::TellsNobody;
        let members = if are_quick { 2 } else { chance.below(3) as usize };
        World {
            chance,
            now: Duration::ZERO,
            processes,
            members,
            line: Vec::new(),
            came: 0,
            are_quick,
            under_way: Vec::new(),
            broken,
            cut: BTreeSet::new(),
            is_calm: false,
        }
    }

    fn send(&mut self, from: usize, to: usize, word: Word) {
        let times =
            if self.is_calm { 1 } else { [1, 1, 1, 1, 0, 2][self.chance.below(6) as usize] };
        for _ in 0..times {
            let most = if self.is_calm { 2 } else { [2, 2, 40, 80][self.chance.below(4) as usize] };
            let late = TICK * self.chance.below(most) as u32;
            self.under_way.push((self.now + late, from, to, word.clone()));
        }
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cut.contains(&(one.min(other), one.max(other)))
    }

    fn step(&mut self) {
        self.now += TICK;
        if !self.is_calm {
            self.disturb();
        }
        for process in &mut self.processes {
            if process.still_until <= self.now {
                process.ran += TICK;
            }
        }
        let (due, later) = std::mem::take(&mut self.under_way).into_iter().partition(|it| {
            // What comes to a process that stands still lies in its socket.
            it.0 <= self.now && self.processes[it.2].still_until <= self.now
        });
        self.under_way = later;
        self.come_to_the_line();
        let due: Vec<_> = due;
        for (_, from, to, word) in due {
            if !self.processes[to].is_dead && !self.is_cut(from, to) {
                self.hear(from, to, word);
            }
        }
        for at in 0..=self.members {
            if !self.processes[at].is_dead && self.processes[at].still_until <= self.now {
                self.act(at);
            }
        }
    }

    fn come_to_the_line(&mut self) {
        for at in 1..=self.members {
            let process = &mut self.processes[at];
            let runs = !process.is_dead && process.still_until <= self.now;
            let comes = process.stays_from <= self.now && runs || self.broken == Broken::CountsAll;
            if comes && process.voter == Some(Rank::BEHIND_ALL) {
                process.voter = Some(Rank { term: Term::default(), number: self.came });
                self.came += 1;
                self.line.push(at);
            }
        }
    }

    /// Its place in the line is given to it later, or it is gone in a moment and nobody hears of that.
    fn enter(&mut self, at: usize) {
        let (now, slow) = (self.now, !self.are_quick);
        let vanishes = slow && self.chance.is(20);
        let later = if slow { TICK * self.chance.below(8) as u32 } else { Duration::ZERO };
        let process = &mut self.processes[at];
        process.stays_from = if vanishes { Duration::MAX } else { now + later };
        process.still_until = if vanishes { Duration::MAX } else { process.still_until };
    }

    fn disturb(&mut self) {
        if self.chance.is(1) && self.members < HOSTS {
            // One by one, or all at once.
            let members = if self.chance.is(50) { HOSTS } else { self.members + 1 };
            (self.members + 1..=members).for_each(|at| self.enter(at));
            self.members = members;
        }
        if self.chance.is(4) {
            let at = self.chance.below(1 + HOSTS as u64) as usize;
            let until = self.now + TICK * self.chance.below(160) as u32;
            let process = &mut self.processes[at];
            process.still_until = process.still_until.max(until);
        }
        if self.chance.is(2) {
            // One part of the hosts and the rest.
            let side = self.chance.below(1 << (HOSTS + 1));
            let pairs =
                (0..=HOSTS).flat_map(|one| (one + 1..=HOSTS).map(move |other| (one, other)));
            self.cut =
                pairs.filter(|(one, other)| (side >> one ^ side >> other) & 1 == 1).collect();
        }
        if self.chance.is(3) {
            self.cut.clear();
        }
        if self.chance.below(1000) < 2 {
            let at = self.chance.below(1 + HOSTS as u64) as usize;
            self.processes[at].is_dead = true;
        }
        if self.broken == Broken::Forgets && self.chance.is(2) {
            let process = &mut self.processes[1 + self.chance.below(HOSTS as u64) as usize];
            if process.owner.is_none() {
                process.support = Support::begin(Term::default(), Duration::ZERO);
            }
        }
    }

    fn hear(&mut self, from: usize, to: usize, word: Word) {
        let (now, broken) = (self.now, self.broken);
        let has_ended = self.processes[self.processes[to].follows].is_dead;
        let left = &mut self.line;
        let process = &mut self.processes[to];
        match word {
            Word::Says { term, voters, heirs, at } => {
                if let Some((own, lease)) = &process.owner
                    && (term < *own || lease.may_decide(now))
                {
                    return;
                }
                if process.owner.take().is_some() {
                    // It votes no more as whom it was, and is nobody's heir.
                    let number = process.voter.map_or(0, |rank| rank.number) + 100;
                    process.voter = Some(Rank { term: Term::default(), number });
                    left.retain(|it| *it != to);
                    process.support.gives_way();
                }
                let hears = process.support.hears(term, has_ended, process.ran);
                if broken != Broken::HearsAll && !hears {
                    return;
                }
                process.follows = from;
                process.heirs = heirs;
                if voters.version >= process.voters.version {
                    process.support.learns(voters.version);
                    process.voters = voters;
                }
                let version = process.voters.version;
                self.send(to, from, Word::Hears { term, version, said: at });
            }
            Word::Hears { term, version, said } => {
                let voter = self.processes[from].voter;
                let Some((own, lease)) = &mut self.processes[to].owner else { return };
                if *own != term {
                    return;
                }
                lease.is_heard(voter, if broken == Broken::CountsArrival { now } else { said });
                if version == lease.voters().version {
                    lease.knows(voter);
                }
            }
            Word::Asks { term, version } => {
                let ran = process.ran;
                let all = broken == Broken::GrantsAll && process.owner.is_none();
                let grants = process.support.grants(term, version, ran)
                    || all && process.support.hears(term, true, ran);
                if grants {
                    self.send(to, from, Word::Grants { term });
                }
            }
            Word::Grants { term } => {
                let voter = self.processes[from].voter;
                let process = &mut self.processes[to];
                if let Some((stood, granted)) = &mut process.stands
                    && *stood == term
                {
                    granted.insert(voter);
                    if process.voters.elect(granted) && process.support.term() == term {
                        let own = process.voter;
                        self.take(to, term, Found { own, ..Found::default() });
                    }
                }
            }
        }
    }

    fn take(&mut self, at: usize, term: Term, found: Found) {
        let process = &mut self.processes[at];
        process.support.takes(term, process.ran);
        process.stands = None;
        process.owner = Some((term, Lease::succeeding(term, process.voters.clone(), found)));
    }

    fn act(&mut self, at: usize) {
        let (now, members) = (self.now, self.members);
        let dead: BTreeSet<_> =
            self.processes.iter().filter(|it| it.is_dead).map(|it| it.voter).collect();
        let starter = &self.processes[0];
        let (starts, is_first) = (starter.voter, at == 0);
        let heirs = self.line.clone();
        let living: Vec<_> = heirs.iter().map(|it| self.processes[*it].voter).collect();
        let process = &mut self.processes[at];
        if let Some((term, lease)) = &mut process.owner {
            dead.iter().for_each(|voter| lease.has_ended(*voter, now));
            if self.broken == Broken::TellsNobody {
                living.iter().for_each(|voter| lease.knows(*voter));
            }
            let wanted = living.into_iter().filter(|it| !dead.contains(it));
            lease.wants(wanted.chain(is_first.then_some(starts)).collect(), now);
            let voters = lease.voters().clone();
            let said = Word::Says { term: *term, voters, heirs, at: now };
            for to in (1..=members).filter(|to| *to != at) {
                self.send(at, to, said.clone());
            }
            return;
        }
        if at == 0 || !process.heirs.contains(&at) {
            return;
        }
        let drawn = self.chance.below(u64::MAX);
        let process = &self.processes[at];
        let (follows, voters) = (process.follows, &process.voters);
        let stands_before = process.heirs.iter().copied().take_while(|it| *it != at);
        let before = || stands_before.clone().filter(|it| *it != follows);
        let term = process.support.term().next(drawn);
        if self.processes[follows].is_dead && before().all(|it| self.processes[it].is_dead) {
            // All that stand before it refuse, as who has ended does.
            let own = process.voter;
            let ended = before().map(|it| self.processes[it].voter).collect();
            let before = Some(self.processes[follows].voter);
            self.take(at, term, Found { own, before, ended });
        } else if voters.has(process.voter) && process.support.would(voters.version, process.ran) {
            // Who stands asks first, and leaves it to those before it that would stand as well.
            let runs = |it: usize| self.processes[it].still_until <= now;
            let others = self.is_calm && before().any(runs);
            if !others && self.chance.is(20) {
                self.stand(at, term);
            }
        }
    }

    fn stand(&mut self, at: usize, term: Term) {
        let process = &mut self.processes[at];
        let version = process.voters.version;
        if process.support.grants(term, version, process.ran) {
            process.stands = Some((term, BTreeSet::from([process.voter])));
            for to in (1..=self.members).filter(|to| *to != at) {
                self.send(at, to, Word::Asks { term, version });
            }
        }
    }

    fn deciding(&self) -> usize {
        let may = |it: &&Process| {
            !it.is_dead && it.owner.as_ref().is_some_and(|(_, lease)| lease.may_decide(self.now))
        };
        self.processes.iter().filter(may).count()
    }

    /// `false`: two decided at the same time.
    fn goes_well(&mut self, ticks: u32) -> bool {
        (0..ticks).all(|_| {
            self.step();
            self.deciding() <= 1
        })
    }
}

const LONG: u32 = 1200;

fn seeds() -> std::ops::Range<u64> {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok());
    0..cases.unwrap_or(60)
}

#[test]
fn there_are_never_two_that_decide() {
    let mut elected = 0;
    for seed in seeds() {
        let mut world = World::new(seed, Broken::Nothing);
        assert!(world.goes_well(LONG), "seed {seed}: two decide after {:?}", world.now);
        let taken = world.processes[1..].iter().filter(|it| it.owner.is_some()).count();
        elected += usize::from(taken > 0);
    }
    assert!(elected > 6, "the file system was taken over {elected} times");
}

/// Seeds from shortly before the first that finds it on.
#[test]
fn whatever_is_left_out_of_the_rules_is_missed() {
    for (broken, from) in [
        (Broken::Forgets, 0),
        (Broken::HearsAll, 0),
        (Broken::GrantsAll, 0),
        (Broken::CountsArrival, 20),
        (Broken::TellsNobody, 5090),
    ] {
        let is_found = (from..from + 50).any(|seed| !World::new(seed, broken).goes_well(LONG));
        assert!(is_found, "rule {}", broken as u8);
    }
}

/// Whatever went before: when more than half see each other and run, one of them decides.
#[test]
fn where_more_than_half_see_each_other_one_decides() {
    for seed in seeds() {
        let mut world = World::new(seed, Broken::Nothing);
        world.members = HOSTS;
        world.is_calm = true;
        assert!(world.goes_well(80), "seed {seed}");
        let silent: Vec<_> = (0..2).map(|_| world.chance.below(1 + HOSTS as u64)).collect();
        for at in silent {
            world.processes[at as usize].still_until = Duration::MAX;
        }
        assert!(world.goes_well(400), "seed {seed}");
        let runs = |it: &&Process| it.still_until < Duration::MAX;
        let decides =
            |it: &Process| it.owner.as_ref().is_some_and(|(_, lease)| lease.may_decide(world.now));
        let deciding = world.processes.iter().filter(runs).filter(|it| decides(it)).count();
        assert_eq!(deciding, 1, "seed {seed}: after {:?}", world.now);
    }
}

/// Two hosts stay, and as many more have entered shortly before whoever has the file system falls silent.
fn is_elected_after_newcomers_vanished(seed: u64, broken: Broken) -> bool {
    let mut world = World::new(seed, broken);
    (world.members, world.is_calm) = (2, true);
    assert!(world.goes_well(80), "seed {seed}");
    for at in 3..=HOSTS {
        world.members = at;
        (world.processes[at].stays_from, world.processes[at].still_until) =
            (Duration::MAX, Duration::MAX);
        let ticks = world.chance.below(20) as u32;
        assert!(world.goes_well(ticks), "seed {seed}");
    }
    world.processes[0].still_until = Duration::MAX;
    assert!(world.goes_well(400), "seed {seed}");
    let decides =
        |it: &Process| it.owner.as_ref().is_some_and(|(_, lease)| lease.may_decide(world.now));
    world.processes[1..=2].iter().any(decides)
}

#[test]
fn hosts_that_enter_and_vanish_keep_nobody_from_being_elected() {
    for seed in seeds() {
        assert!(is_elected_after_newcomers_vanished(seed, Broken::Nothing), "seed {seed}");
    }
    let is_found = |seed| !is_elected_after_newcomers_vanished(seed, Broken::CountsAll);
    assert!((0..50).any(is_found), "nobody waits for those that have vanished");
}

#[test]
fn a_voter_hears_one_at_a_time() {
    let at = |seconds| Duration::from_secs(seconds);
    let (first, second) = (Term::default(), Term::default().next(3));
    let mut support = Support::begin(first, at(0));
    assert!(support.hears(first, false, at(5)));
    assert!(!support.hears(second, false, at(16)), "the first was heard within a lease");
    assert!(!support.grants(second, Version::default(), at(16)));
    assert!(support.grants(second, Version::default(), at(17)));
    assert!(!support.hears(first, false, at(18)), "it has agreed to hear somebody else");
    assert!(support.hears(second, false, at(18)) && !support.hears(first, true, at(99)));
    let third = second.next(1);
    assert!(support.hears(third, true, at(19)), "the second is known to have ended");
    support.takes(third.next(1), at(20));
    assert!(!support.hears(third.next(1).next(1), true, at(99)), "it has the file system itself");
}

#[test]
fn two_hosts_do_not_vote_and_decide_for_ever() {
    let rank = |number| Some(Rank { term: Term::default(), number });
    let now = Duration::from_secs(1);
    let mut lease = Lease::default();
    assert!(lease.wants(vec![None, rank(0)], now) && !lease.voters().can_elect());
    assert!(!lease.wants(vec![None, rank(0)], now), "the host does not know of it yet");
    lease.knows(rank(0));
    assert!(lease.wants(vec![None, rank(0)], now) && lease.until().is_none());
    assert!(lease.wants(vec![None, rank(0), rank(1)], now));
    lease.is_heard(rank(0), now);
    lease.knows(rank(0));
    lease.knows(rank(1));
    assert!(lease.wants(vec![None, rank(0), rank(1)], now) && lease.voters().can_elect());
    assert_eq!(lease.until(), Some(now + OWNER_LEASE));
    lease.has_ended(rank(0), now + OWNER_LEASE);
    assert!(!lease.may_decide(now + OWNER_LEASE), "it may have agreed to hear somebody else");
    lease.is_heard(rank(1), now + OWNER_LEASE);
    lease.has_ended(rank(1), now + OWNER_LEASE);
    assert!(lease.until().is_none());
}
