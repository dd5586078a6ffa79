//! By how much more may be in use soon: the rest of the told course from where the run is, or what the
//! observed slope brings, whichever is more.

use super::curve::{Course, Stretch};
use super::follow::Follower;

/// What a stretch brings may be this much more than expected.
const SIZE_MARGIN: f64 = 1.1;
/// What rises goes on as it did for so many times the lead, whatever was told: until the next growth,
/// which is decided on when this one is over, can serve.
const TREND_LEADS: f64 = 2.0;
/// A stretch that is overdue for so many times the lead does not come to an end soon.
const GRACE_LEADS: f64 = 2.0;
/// Less than this part of the peak is no beginning of a rise.
const BEGUN: f64 = 0.01;
/// When so much of a rise is seen, of its bytes or of its time, it says itself how fast it goes. Where less
/// comes than was told, a part of the bytes is seen late.
const SEEN_PART: f64 = 0.2;
/// What rises though nothing of it was told may go on for so many times as long as is looked ahead.
const UNTOLD: f64 = 3.0;
/// By this factor at most a rise is slower or faster than told.
const PACE_MOST: f64 = 4.0;

/// A run at an instant, in seconds and bytes.
pub(super) struct Outlook<'f> {
    pub follower: &'f Follower,
    pub now: f64,
    /// A node is full.
    pub full: bool,
    /// Until nodes that are wished for can serve.
    pub lead: f64,
}

impl Outlook<'_> {
    /// By how much more may be in use at some time within so many seconds.
    pub fn growth(&self, ahead: f64) -> f64 {
        if let Some(left) = self.follower.awaited() {
            return self.staged_in(left, ahead);
        }
        let growth = match self.follower.stretch() {
            Some(rise) if rise.course == Course::Rises => self.rest_of(rise, ahead),
            Some(stretch) => self.after(stretch, ahead),
            None => 0.0,
        };
        growth.min(self.most_growth()).min(self.bound(ahead).unwrap_or(f64::INFINITY))
    }

    /// What may come within so many seconds at most, where the graph of the run knows.
    pub fn bound(&self, ahead: f64) -> Option<f64> {
        let follower = self.follower;
        let (then, held) = (follower.before(), follower.held());
        let lasted = self.now - follower.told_at();
        follower.curve.bound.as_ref()?.growth(lasted, ahead, then, held)
    }

    /// The input comes as fast as it does, and no more of it than was told; then the course begins.
    fn staged_in(&self, left: f64, ahead: f64) -> f64 {
        let trend = self.trend();
        if trend * ahead <= left {
            return trend * ahead;
        }
        let shape = &self.follower.curve.shape;
        let more = shape.most(0.0, ahead - left / trend) - shape.at(0.0);
        left + more.max(0.0) * SIZE_MARGIN
    }

    /// No more than all files together, as long as there is less: how fast something comes says
    /// nothing of how long it does.
    fn most_growth(&self) -> f64 {
        let Some(total) = self.follower.curve.total else { return f64::INFINITY };
        let most =
            total * self.follower.larger.max(self.follower.larger_here()).max(1.0) * SIZE_MARGIN;
        let left = most - (self.follower.held() - self.follower.before());
        if left > 0.0 { left } else { f64::INFINITY }
    }

    /// What the observed slope brings as well as what was told.
    pub fn sure_growth(&self, ahead: f64) -> f64 {
        self.growth(ahead).min(self.trend() * ahead)
    }

    /// Of a rise that the run is in. Where it is on the told course its bytes say, and how fast it goes
    /// the time that these took. But a steep part of which less came than told is over at some time.
    fn rest_of(&self, rise: Stretch, ahead: f64) -> f64 {
        let Follower { curve, .. } = self.follower;
        let larger = self.follower.larger_here() * SIZE_MARGIN;
        let (begin, risen) = (self.follower.begin(), self.risen());
        let end = begin + rise.seconds;
        let by_bytes = curve.shape.reaches(rise.from + risen / larger.max(1e-9), begin, end);
        let by_time = begin + self.follower.lasted(self.now) / PACE_MOST;
        let has_begun = risen >= BEGUN * self.follower.peak();
        let at = if has_begun { by_bytes.max(by_time.min(end)) } else { by_bytes };
        let until = at + ahead / self.slower(rise, at - begin);
        let told = (curve.shape.most(at, until) - curve.shape.at(at)) * larger;
        let rest = ((rise.to - rise.from) * larger - risen).max(0.0);
        // The rest may be more than told, but what rises rises on for a while.
        let trend = self.trend();
        if risen < BEGUN * self.follower.peak() && self.is_overdue(rise) {
            // It does not come: the run is elsewhere, or ends.
            return trend * ahead;
        }
        let expected = told.max(trend * ahead.min(TREND_LEADS * self.lead));
        // A rise that is larger than told says nothing of its end.
        let is_larger = rest == 0.0;
        let most = rest.max(told).max(trend * ahead.min(self.lead));
        if is_larger { expected } else { expected.min(most) }
    }

    /// A rise that has not begun, and neither the stay before it nor the rise itself takes so long.
    fn is_overdue(&self, rise: Stretch) -> bool {
        let before = self.follower.stretch_before().map_or(0.0, |stretch| stretch.seconds);
        let told = (before + rise.seconds) * self.follower.slower;
        self.follower.lasted(self.now) >= told + GRACE_LEADS * self.lead
    }

    /// How many times as long as told a rise takes, of which so many told seconds have passed.
    fn slower(&self, rise: Stretch, told: f64) -> f64 {
        let lasted = self.follower.lasted(self.now);
        let all = (rise.to - rise.from) * self.follower.larger_here();
        let is_timed = lasted >= SEEN_PART * rise.seconds * self.follower.slower;
        let has_part = is_timed || self.risen() >= SEEN_PART * all;
        let is_seen = has_part && told.min(lasted) > self.follower.pace().window();
        if is_seen {
            (lasted / told).clamp(1.0 / PACE_MOST, PACE_MOST)
        } else {
            self.follower.slower
        }
    }

    /// Of what comes after this stretch, when it is due; and of a rise that nobody expects.
    fn after(&self, stretch: Stretch, ahead: f64) -> f64 {
        let Follower { curve, slower, larger, .. } = self.follower;
        let lasted = self.follower.lasted(self.now);
        let begin = self.follower.begin();
        let end = begin + stretch.seconds;
        let until = (begin + lasted / slower).min(end) + ahead / slower;
        let overdue = lasted - stretch.seconds * slower >= GRACE_LEADS * self.lead;
        let more = match overdue || until <= end {
            true => 0.0,
            false => (curve.shape.most(end, until) - stretch.to).max(0.0),
        };
        let told = more * larger * SIZE_MARGIN;
        // What rises while a fall is told is on no told course, and how long it goes on nobody knows.
        let ahead = if stretch.course == Course::Stays { ahead } else { UNTOLD * ahead };
        told.max(self.trend() * ahead)
    }

    /// Bytes a second, 0 at least. On full nodes, what is observed is how much room there is: it would
    /// rise as fast as it did before.
    fn trend(&self) -> f64 {
        if self.full { self.follower.fastest() } else { self.follower.rate().max(0.0) }
    }

    /// By how much more is in use than at the beginning of the stretch.
    fn risen(&self) -> f64 {
        (self.follower.held() - self.follower.base()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve::Curve;
    use super::super::shape::Shape;
    use super::*;

    fn curve(stretches: Vec<Stretch>, shape: Shape) -> Curve {
        Curve { stretches, peak: 100.0, shape, ..Curve::default() }
    }

    /// Told: 80 of 100 bytes within 100 s, and the others within 400 s more.
    fn follower() -> Follower {
        let line = |seconds, from, to| Stretch { course: Course::Rises, seconds, from, to };
        let shape = Shape::of(&[line(100.0, 0.0, 80.0), line(400.0, 80.0, 100.0)]);
        Follower::new(curve(vec![line(500.0, 0.0, 100.0)], shape))
    }

    /// What is expected after so many seconds of a run that is so many times as slow as told.
    fn growth(seconds: u32, slower: f64, ahead: f64) -> f64 {
        expected(seconds, slower, |outlook| outlook.growth(ahead))
    }

    fn expected(seconds: u32, slower: f64, what: impl Fn(&Outlook<'_>) -> f64) -> f64 {
        let mut follower = follower();
        for second in (0..=seconds).map(f64::from) {
            let told = second / slower;
            let bytes = (0.8 * told).min(80.0 + 0.05 * (told - 100.0).max(0.0));
            follower.observe(second, bytes, 0.2, false);
        }
        let now = f64::from(seconds);
        what(&Outlook { follower: &follower, now, full: false, lead: 20.0 })
    }

    #[test]
    fn the_last_files_of_a_stage_are_not_expected_at_the_pace_of_the_first() {
        let (first, last) = (growth(50, 1.0, 20.0), growth(300, 1.0, 100.0));
        assert!((15.0..18.0).contains(&first), "0.8 bytes a second: {first}");
        assert!((1.5..6.0).contains(&last), "0.05 bytes a second: {last}");
    }

    #[test]
    fn a_steep_part_that_is_smaller_than_told_is_not_waited_for_for_ever() {
        let line = |seconds, from, to| Stretch { course: Course::Rises, seconds, from, to };
        let shape = Shape::of(&[line(10.0, 0.0, 80.0), line(400.0, 80.0, 100.0)]);
        let growth = |seconds: u32| {
            let stretches = vec![line(410.0, 0.0, 100.0)];
            let mut follower = Follower::new(curve(stretches, shape.clone()));
            for second in (0..=seconds).map(f64::from) {
                let bytes = (4.0 * second).min(40.0 + 0.05 * (second - 10.0).max(0.0));
                follower.observe(second, bytes, 0.2, false);
            }
            let now = f64::from(seconds);
            Outlook { follower: &follower, now, full: false, lead: 20.0 }.growth(20.0)
        };
        // Half of it came. At a quarter of the told pace it is over after 40 s.
        assert!(growth(30) > 20.0 && growth(60) < 5.0, "{} {}", growth(30), growth(60));
    }

    #[test]
    fn a_rise_of_which_less_comes_than_told_is_seen_by_its_time() {
        let line = Stretch { course: Course::Rises, seconds: 100.0, from: 0.0, to: 100.0 };
        let growth = |seconds: u32| {
            let (stretches, shape) = (vec![line], Shape::of(&[line]));
            let mut follower = Follower::new(curve(stretches, shape));
            (0..=seconds).map(f64::from).for_each(|at| follower.observe(at, 0.5 * at, 0.2, false));
            let now = f64::from(seconds);
            Outlook { follower: &follower, now, full: false, lead: 20.0 }.growth(20.0)
        };
        // A byte a second was told, and half of that comes; a fifth of the bytes is there after 40 s.
        let (early, later) = (growth(15), growth(30));
        assert!((20.0..23.0).contains(&early), "as told: {early}");
        assert!((9.0..12.0).contains(&later), "as seen: {later}");
    }

    #[test]
    fn a_rise_larger_than_told_goes_on_for_two_leads() {
        // Told are 100 bytes at most, and a byte a second rises.
        let after = |seconds| {
            let mut follower = follower();
            for second in (0..=seconds).map(f64::from) {
                follower.observe(second, second, 0.2, false);
            }
            let now = f64::from(seconds);
            Outlook { follower: &follower, now, full: false, lead: 20.0 }.growth(60.0)
        };
        assert!((19.0..31.0).contains(&after(90)), "20 are left: {}", after(90));
        assert!((39.9..40.1).contains(&after(150)), "twice 20 s: {}", after(150));
    }

    /// 100 bytes of input and nothing else were told, and ten a second come.
    fn staged_in(until: u32, total: Option<f64>) -> f64 {
        let stay = Stretch { course: Course::Stays, seconds: 500.0, from: 100.0, to: 100.0 };
        let shape = Shape::of(&[stay]);
        let mut follower = Follower::new(Curve { input: 100.0, total, ..curve(vec![stay], shape) });
        let at = (0..=until).map(f64::from);
        at.for_each(|at| follower.observe(at, 10.0 * at, 0.2, false));
        Outlook { follower: &follower, now: until.into(), full: false, lead: 20.0 }.growth(40.0)
    }

    #[test]
    fn an_input_grows_to_what_was_told_of_it() {
        assert_eq!((staged_in(1, None), staged_in(8, None)), (90.0, 20.0));
        // It is complete, and more comes than was told of anything.
        assert_eq!(staged_in(15, None), 400.0);
        let bounded = [8, 12].map(|until| staged_in(until, Some(100.0)).round());
        assert_eq!(bounded, [20.0, 400.0]);
        let all = staged_in(10, Some(150.0));
        assert!((64.9..65.1).contains(&all), "of 150 with a margin: {all}");
    }

    #[test]
    fn what_is_sure_is_told_and_observed() {
        let sure = expected(20, 4.0, |outlook| outlook.sure_growth(60.0));
        assert!((11.9..12.1).contains(&sure), "0.2 bytes a second are seen: {sure}");
        assert!(growth(20, 4.0, 60.0) > 40.0, "0.8 are told: {}", growth(20, 4.0, 60.0));
    }

    #[test]
    fn what_rises_while_a_fall_is_told_has_room_for_longer_than_is_looked_ahead() {
        let fall = Stretch { course: Course::Falls, seconds: 100.0, from: 100.0, to: 20.0 };
        let shape = Shape::of(&[fall]);
        let mut follower = Follower::new(curve(vec![fall], shape));
        for second in (0..=30).map(f64::from) {
            follower.observe(second, 50.0 + second, 0.2, false);
        }
        let outlook = Outlook { follower: &follower, now: 30.0, full: false, lead: 20.0 };
        assert_eq!(outlook.growth(20.0), 60.0, "a byte a second");
    }

    #[test]
    fn a_rise_that_does_not_begin_is_not_waited_for_for_ever() {
        let after = |seconds| {
            let mut follower = follower();
            follower.observe(0.0, 0.0, 0.2, false);
            follower.observe(seconds, 0.0, 0.2, false);
            Outlook { follower: &follower, now: seconds, full: false, lead: 20.0 }.growth(20.0)
        };
        // It takes 500 s, and twice the lead is waited for.
        assert!(after(530.0) > 10.0, "{}", after(530.0));
        assert_eq!(after(541.0), 0.0);
    }

    #[test]
    fn a_rise_of_which_a_part_is_seen_says_itself_how_fast_it_goes() {
        let slow = growth(200, 4.0, 20.0);
        assert!((3.9..6.0).contains(&slow), "0.2 bytes a second: {slow}");
        // Before, what was told is expected.
        assert!(growth(20, 4.0, 20.0) > 10.0, "{}", growth(20, 4.0, 20.0));
    }
}
