//! What `tidefs plan` prints: a line a node, then each aim beside its lower bound (Pufferscale,
//! equations 8 to 11).

use std::fmt::{self, Display, Formatter};

use tidefs_control::{count_of_partitions, count_of_steps};
use tidefs_model::ByteSize;

use super::explain::Explained;

impl Display for Explained {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.nodes(f)?;
        writeln!(f)?;
        self.aims(f)?;
        self.remarks(f)
    }
}

impl Explained {
    fn nodes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let wide =
            self.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(4).max(4);
        writeln!(
            f,
            "{:<wide$}  {:<6}  {:>15}  {:>23}  {:>10}  {:>10}  {:>8}  why",
            "node", "class", "partitions", "bytes", "sends", "receives", "seconds"
        )?;
        for node in &self.nodes {
            let partitions = format!("{} > {}", node.partitions_before, node.partitions_after);
            let bytes = format!("{} > {}", ByteSize(node.bytes_before), ByteSize(node.bytes_after));
            writeln!(
                f,
                "{:<wide$}  {:<6}  {partitions:>15}  {bytes:>23}  {:>10}  {:>10}  {:>8.2}  {}",
                node.name,
                node.class,
                ByteSize(node.sent_bytes).to_string(),
                ByteSize(node.received_bytes).to_string(),
                node.seconds,
                node.why,
            )?;
        }
        Ok(())
    }

    fn aims(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Explained { before, after, bounds, .. } = self;
        let load = format!("{:.1}", bounds.load);
        let bytes = ByteSize(bounds.bytes).to_string();
        for (name, before, after, bound) in [
            ("load", before.load_balance, after.load_balance, load),
            ("bytes", before.data_balance, after.data_balance, bytes),
        ] {
            let (before, after) = (beyond(before), beyond(after));
            writeln!(
                f,
                "{name:<9} fullest node {after} its share, which is the lower bound ({bound} on \
                 average); {before} before"
            )?;
        }
        let (seconds, between) = (after.duration_seconds, bounds.duration_seconds);
        let (from_here, leaving) = (bounds.from_here_seconds, bounds.leaving_seconds);
        writeln!(
            f,
            "time      {seconds:.2} s at full bandwidth; lower bounds: between even spreads \
             {between:.2} s{}, from here {from_here:.2} s{}, to empty what leaves {leaving:.2} s{}",
            of_bound(seconds, between),
            of_bound(seconds, from_here),
            of_bound(self.seconds_to_leave, leaving),
        )?;
        let (moved, least) = (self.bytes_moved, bounds.bytes_moved);
        writeln!(
            f,
            "moves     {} with {} in {}; any plan that ends even moves {}{}",
            count_of_partitions(self.partitions_moved),
            ByteSize(moved),
            count_of_steps(self.steps),
            ByteSize(least),
            of_bound(moved as f64, least as f64)
        )
    }

    fn remarks(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_below_a_bound() {
            writeln!(
                f,
                "below     a bound holds for plans that begin, or end, with an even spread; what begins \
                 or ends less even may move less, and be quicker"
            )?;
        }
        if let (Some(planned), Some(wished)) = (self.own_share, self.own_share_wished) {
            write!(f, "own share {planned:.3} of the data on own nodes")?;
            let less = if planned < wished { "not more" } else { "not less" };
            if planned != wished {
                write!(f, ": memory allows {less}, and {wished:.3} was asked for")?;
            }
            writeln!(f)?;
        }
        if self.hurried {
            writeln!(
                f,
                "hurried   what leaves goes to where it is soonest, and nothing else moves: an even \
                 spread would miss the deadline"
            )?;
        }
        if self.left_out > 0 {
            writeln!(
                f,
                "left out  {} moves, for which there is no room at any time",
                self.left_out
            )?;
        }
        Ok(())
    }
}

impl Explained {
    /// Is anything that is told beside a bound below it?
    fn is_below_a_bound(&self) -> bool {
        let Explained { after, bounds, .. } = self;
        let seconds = after.duration_seconds;
        [
            (seconds, bounds.duration_seconds),
            (seconds, bounds.from_here_seconds),
            (self.seconds_to_leave, bounds.leaving_seconds),
            (self.bytes_moved as f64, bounds.bytes_moved as f64),
        ]
        .into_iter()
        .any(|(value, bound)| is_below(value, bound))
    }
}

/// Rounded as it is told.
fn is_below(value: f64, bound: f64) -> bool {
    bound > 0.0 && percent_off(value, bound) <= -0.05
}

fn percent_off(value: f64, bound: f64) -> f64 {
    (value / bound - 1.0) * 100.0
}

/// By how much a multiple of a share is off it.
fn beyond(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let side = if percent < 0.0 { "below" } else { "above" };
    format!("{:.2} % {side}", percent.abs())
}

/// How far from a bound, where there is one.
fn of_bound(value: f64, bound: f64) -> String {
    if bound <= 0.0 {
        return String::new();
    }
    let side = if is_below(value, bound) { "below" } else { "above" };
    format!(" ({:.1} % {side})", percent_off(value, bound).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_has_a_side_and_a_bound() {
        assert_eq!(beyond(1.25), "25.00 % above");
        assert_eq!(beyond(0.9), "10.00 % below");
        assert_eq!(of_bound(11.0, 10.0), " (10.0 % above)");
        assert_eq!(of_bound(9.0, 10.0), " (10.0 % below)");
        // What rounds to nothing is no distance below.
        assert_eq!(of_bound(9.999, 10.0), " (0.0 % above)");
        assert_eq!(of_bound(11.0, 0.0), "");
    }
}
