//! How one program calls, and so when to follow it.

use std::time::Duration;

/// Calls in a row that make a habit.
const ROW: u32 = 32;
/// The program is looked for after so many calls, or sooner when a call came late.
const LOOK: u32 = 64;
/// From an answer to the next call it takes a few microseconds where both are on one processor,
/// and two wake-ups more where they are not.
const LATE: Duration = Duration::from_micros(25);
/// A program that was found elsewhere more often than that, among so many calls, cannot be followed
/// for now; so many calls later it is tried again. Following costs more than a call then.
const MOVES_MAX: u32 = 160;
const WINDOW: u32 = 256;
const REST: u32 = 4_096;

/// What to do before a call is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Stay,
    /// Run anywhere.
    LetGo,
    /// See where the program is, and run there.
    Look,
}

#[derive(Debug, Default)]
pub struct Habit {
    caller: u32,
    row: u32,
    follows: bool,
    /// Calls that have to pass until it is followed again.
    rest: u32,
    /// Calls since the program was looked for, and how many have to come before a late one tells
    /// anything: a program that has something to do itself is late where it is, too.
    unseen: u32,
    patience: u32,
    /// Calls of this window, and how often the program was found elsewhere.
    calls: u32,
    moves: u32,
}

impl Habit {
    /// A call of a program's thread. `alone`: it is small and no other one is under way; `pause` is
    /// the time since the last one was answered.
    pub fn call(&mut self, caller: u32, alone: bool, pause: Duration) -> Turn {
        self.rest = self.rest.saturating_sub(1);
        if !alone || caller != self.caller {
            (self.caller, self.row) = (caller, 0);
            return self.give_up();
        }
        self.row = self.row.saturating_add(1);
        if self.row < ROW || self.rest > 0 {
            return Turn::Stay;
        }
        if !self.follows {
            (self.follows, self.patience, self.calls, self.moves) = (true, 0, 0, 0);
            return Turn::Look;
        }
        self.calls += 1;
        if self.calls == WINDOW {
            (self.calls, self.moves) = (0, 0);
        }
        self.unseen += 1;
        let may_be_gone = self.unseen > self.patience && pause >= LATE;
        if may_be_gone || self.unseen >= LOOK { Turn::Look } else { Turn::Stay }
    }

    pub fn follows(&self) -> bool {
        self.follows
    }

    /// The program was looked for, and found elsewhere than before or not.
    pub fn looked(&mut self, moved: bool) -> Turn {
        self.unseen = 0;
        self.patience = if moved { 0 } else { (2 * self.patience + 1).min(LOOK) };
        self.moves += u32::from(moved);
        if self.moves > MOVES_MAX { self.cannot_follow() } else { Turn::Stay }
    }

    /// Where the program is cannot be seen, or it is never there for long.
    pub fn cannot_follow(&mut self) -> Turn {
        self.rest = REST;
        self.give_up()
    }

    fn give_up(&mut self) -> Turn {
        if std::mem::take(&mut self.follows) { Turn::LetGo } else { Turn::Stay }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 7;
    const B: u32 = 8;
    const SOON: Duration = Duration::from_micros(5);

    /// A program that was moved now and then, and who serves it.
    #[derive(Default)]
    struct Scene {
        habit: Habit,
        /// It moves before each of so many calls; 0 for never.
        moves_every: u32,
        calls: u32,
        is_elsewhere: bool,
        follows: bool,
        looks: u32,
    }

    impl Scene {
        fn call(&mut self, caller: u32, alone: bool, pause: Duration) {
            self.calls += 1;
            if self.moves_every > 0 && self.calls.is_multiple_of(self.moves_every) {
                self.is_elsewhere = true;
            }
            let pause = if self.is_elsewhere { pause + LATE } else { pause };
            let turn = match self.habit.call(caller, alone, pause) {
                Turn::Look => {
                    (self.looks, self.follows) = (self.looks + 1, true);
                    self.habit.looked(std::mem::take(&mut self.is_elsewhere))
                }
                turn => turn,
            };
            assert_ne!(turn, Turn::Look);
            self.follows &= turn != Turn::LetGo;
        }

        /// How many of so many calls in a row were served where the caller is.
        fn row(&mut self, caller: u32, calls: u32, pause: Duration) -> u32 {
            let mut near = 0;
            for _ in 0..calls {
                self.call(caller, true, pause);
                near += u32::from(self.follows && !self.is_elsewhere);
            }
            near
        }
    }

    #[test]
    fn a_program_that_calls_alone_is_followed_once_that_is_its_habit() {
        let mut scene = Scene::default();
        assert_eq!(scene.row(A, ROW, SOON), 0);
        assert_eq!(scene.row(A, 10_000, SOON), 10_000);
        assert!(scene.looks <= 10_000 / LOOK + 2, "{}", scene.looks);
    }

    #[test]
    fn a_program_that_moved_is_found_with_the_first_call_that_is_late() {
        let mut scene = Scene { moves_every: 20, ..Scene::default() };
        scene.row(A, 200, SOON);
        let near = scene.row(A, 10_000, SOON);
        assert!(near >= 9_000, "{near}");
    }

    #[test]
    fn a_program_that_has_something_to_do_itself_is_seldom_looked_for() {
        let mut scene = Scene::default();
        scene.row(A, 10_000, 40 * LATE);
        assert!(scene.looks <= 10_000 / LOOK + 8, "{}", scene.looks);
    }

    #[test]
    fn a_program_that_moves_with_each_answer_is_let_go_and_tried_again_later() {
        let mut scene = Scene { moves_every: 1, ..Scene::default() };
        scene.row(A, 1_000, SOON);
        assert!(!scene.follows && scene.looks <= 2 * MOVES_MAX, "{}", scene.looks);
        (scene.moves_every, scene.looks) = (0, 0);
        scene.row(A, REST - 1_000, SOON);
        assert_eq!(scene.looks, 0);
        scene.row(A, 1_000, SOON);
        assert!(scene.follows);
    }

    #[test]
    fn another_caller_or_a_call_beside_another_ends_it_at_once() {
        for (caller, alone) in [(B, true), (A, false)] {
            let mut scene = Scene::default();
            scene.row(A, 1_000, SOON);
            assert!(scene.follows);
            scene.call(caller, alone, SOON);
            assert!(!scene.follows);
            assert_eq!(scene.row(caller, ROW - 1, SOON), 0);
            scene.row(caller, 1, SOON);
            assert!(scene.follows);
        }
    }

    #[test]
    fn programs_that_take_turns_are_not_followed() {
        let mut scene = Scene::default();
        let near: u32 = (0..500).map(|turn| scene.row([A, B][turn % 2], ROW, SOON)).sum();
        assert_eq!((near, scene.looks), (0, 0));
    }

    #[test]
    fn what_cannot_be_followed_is_tried_seldom() {
        let mut habit = Habit::default();
        let mut looks = 0;
        for _ in 0..10 * REST {
            if habit.call(A, true, SOON) == Turn::Look {
                looks += 1;
                habit.cannot_follow();
            }
        }
        assert!((9..=11).contains(&looks), "{looks}");
    }
}
