//! What is known of a node that let somebody not in: why, for how long nobody tries again, and since when it
//! has been silent. Not whether it is dead: that is for the map of the cluster to say.

use std::time::{Duration, Instant};

use crate::awake::Awake;
use crate::fault::Fault;

/// How long a node that could not be reached is left alone.
pub const DOWN_FOR: Duration = Duration::from_secs(1);

/// The node could not be reached.
pub struct Down {
    pub fault: Fault,
    /// `None` where it has answered on a connection from before, and so is only busy, or where nobody has
    /// tried for so long that what it was then says nothing.
    pub since: Option<Awake>,
    /// Nobody needs to try again before.
    until: Instant,
}

impl Down {
    /// Once more, or for the first time.
    pub fn new(fault: Fault, before: Option<&Down>) -> Down {
        let since = before.and_then(|down| down.since).unwrap_or_else(Awake::now);
        Down { fault, since: Some(since), until: Instant::now() + DOWN_FOR }
    }

    /// Who comes then is told the fault; or he tries, and others are told for as long as that may take.
    pub fn is_tried(&mut self, now: Instant, connect: Duration, reply: Duration) -> bool {
        let Some(left_alone) = now.checked_duration_since(self.until) else { return false };
        self.since = self.since.filter(|_| left_alone < reply);
        self.until = now + connect + DOWN_FOR;
        true
    }
}
