//! Reconfigurations in a picture: a stripe of time each, and a flag with its number in the table.

use super::legend::{Entry, Swatch};
use super::panel::Panel;
use super::{Px, Width};
use crate::facts::{Kind, Reconfiguration};
use crate::markup::Markup;
use crate::words;

/// With more than this the edges of stripes would hide what lies behind them.
const EDGED_MOST: usize = 60;

/// How far a flag may reach past the right edge of its panel.
const MARGIN: f64 = 14.0;
/// Between two flags.
const GAP: f64 = 6.0;
/// A flag that says more than its number is not further from its stripe.
const SHIFT_MOST: f64 = 12.0;

/// Marks that are listed below a picture.
const LISTED_MOST: usize = 60;
const COLUMNS: usize = 2;
const LIST_LEFT: f64 = 10.0;
const LIST_LINE: f64 = 17.0;

/// Entries for the kinds that occur.
pub(super) fn legend(reconfigurations: &[Reconfiguration]) -> impl Iterator<Item = Entry> {
    let kinds = [Kind::Commission, Kind::Decommission, Kind::Rebalance];
    kinds
        .into_iter()
        .filter(|kind| reconfigurations.iter().any(|r| r.kind == *kind))
        .map(|kind| (Swatch::Mark(kind.name()), kind.name().to_owned()))
}

/// Stripes over the panels, behind their lines. Of those that begin at one place, one is drawn.
pub(super) fn stripes(svg: &mut Markup, panels: &[Panel], reconfigurations: &[Reconfiguration]) {
    let edges = if reconfigurations.len() > EDGED_MOST { "mark dense" } else { "mark" };
    for panel in panels {
        let mut last = f64::NEG_INFINITY;
        for (at, reconfiguration) in reconfigurations.iter().enumerate() {
            let start = panel.x(reconfiguration.started_at);
            let end = panel.x(reconfiguration.started_at + reconfiguration.seconds);
            if start - last >= 1.0 {
                last = start;
                let class = format!("{edges} {}", reconfiguration.kind.name());
                let tip = tip(at, reconfiguration);
                stripe(svg, panel, &class, [start, end.max(start + 1.0)], &tip);
            }
        }
    }
    svg.line();
}

fn stripe(svg: &mut Markup, panel: &Panel, class: &str, [start, end]: [f64; 2], tip: &str) {
    let (wide, high) = (Px(end - start), Px(panel.bottom - panel.top));
    let (x, y) = (Px(start), Px(panel.top));
    let place: [(&str, &dyn std::fmt::Display); 5] =
        [("class", &class), ("x", &x), ("y", &y), ("width", &wide), ("height", &high)];
    svg.element("rect", &place, |rect| rect.leaf("title", &[], tip));
}

/// What is shown when a pointer rests on a stripe.
fn tip(at: usize, reconfiguration: &Reconfiguration) -> String {
    let Reconfiguration { kind, reason, nodes_before, nodes_after, .. } = reconfiguration;
    let took = words::duration(reconfiguration.seconds);
    let name = kind.name();
    format!("{}: {name}, {nodes_before} to {nodes_after} nodes in {took}. {reason}", at + 1)
}

/// Flags above a panel, in their order, none over another. They say how the number of nodes changed
/// where all have room to; else each is its number alone, which the list or the table explains.
pub(super) fn flags(svg: &mut Markup, panel: &Panel, reconfigurations: &[Reconfiguration]) {
    let middle = |done: &Reconfiguration| {
        (panel.x(done.started_at) + panel.x(done.started_at + done.seconds)) / 2.0
    };
    let wanted: Vec<_> = reconfigurations.iter().map(middle).collect();
    let within = [panel.left + 6.0, panel.right + MARGIN];
    let long = |at: usize| {
        let Reconfiguration { nodes_before, nodes_after, .. } = &reconfigurations[at];
        format!("{}: {}", at + 1, words::change(*nodes_before, *nodes_after))
    };
    let short = |at: usize| (at + 1).to_string();
    let beside = beside(&wanted, long, within, SHIFT_MOST);
    let texts = beside.unwrap_or_else(|| numbered(&wanted, short, within));
    for (at, middle, text) in texts {
        let class = format!("flag middle {}", reconfigurations[at].kind.name());
        let (x, y) = (Px(middle), Px(panel.top - 12.0));
        svg.leaf("text", &[("class", &class), ("x", &x), ("y", &y)], text);
    }
    svg.line();
}

type Flag = (usize, f64, String);

/// Every flag, or, where there is no room for so many, every second, third, ... of them.
fn numbered(wanted: &[f64], text: impl Fn(usize) -> String, within: [f64; 2]) -> Vec<Flag> {
    for every in 1..=wanted.len() {
        let some: Vec<_> = (0..wanted.len()).step_by(every).collect();
        let places: Vec<_> = some.iter().map(|&at| wanted[at]).collect();
        if let Some(flags) = beside(&places, |at| text(some[at]), within, f64::INFINITY) {
            return flags.into_iter().map(|(at, middle, text)| (some[at], middle, text)).collect();
        }
    }
    Vec::new()
}

/// Each as near as can be to where it is wanted; `None` where they do not fit, or one would be
/// further from there than `shift`.
fn beside(
    wanted: &[f64],
    text: impl Fn(usize) -> String,
    [left, right]: [f64; 2],
    shift: f64,
) -> Option<Vec<Flag>> {
    let texts: Vec<_> = (0..wanted.len()).map(text).collect();
    let half = |at: usize| 3.6 * texts[at].chars().count() as f64;
    let apart = |at: usize| half(at) + half(at + 1) + GAP;
    let mut middles = wanted.to_vec();
    for at in 0..middles.len() {
        let least = if at == 0 { left + half(0) } else { middles[at - 1] + apart(at - 1) };
        middles[at] = middles[at].max(least);
    }
    for at in (0..middles.len()).rev() {
        let last = at + 1 == middles.len();
        let most = if last { right - half(at) } else { middles[at + 1] - apart(at) };
        middles[at] = middles[at].min(most);
    }
    let fits = middles.first().is_none_or(|first| *first >= left + half(0) - 0.05);
    let near = middles.iter().zip(wanted).all(|(is, wanted)| (is - wanted).abs() <= shift);
    let flag = |((at, text), middle): ((usize, String), f64)| (at, middle, text);
    let numbered = texts.iter().cloned().enumerate().zip(middles.iter().copied());
    (fits && near).then(|| numbered.map(flag).collect())
}

/// Below a picture that stands alone: every mark with its number, to [`LISTED_MOST`] of them.
pub(super) fn list(svg: &mut Markup, width: Width, top: f64, reconfigurations: &[Reconfiguration]) {
    let column = (width.right() - LIST_LEFT) / COLUMNS as f64;
    let rows = rows(reconfigurations.len());
    for (at, done) in reconfigurations.iter().enumerate().take(LISTED_MOST) {
        let Reconfiguration { kind, nodes_before, started_at, seconds, .. } = done;
        let (begun, took) = (words::duration(*started_at), words::duration(*seconds));
        let (number, name, after) = (at + 1, kind.name(), words::nodes(done.nodes_after));
        let text =
            format!("{number}: {name}, {nodes_before} \u{2192} {after}, at {begun}, took {took}");
        let (x, y) =
            (LIST_LEFT + column * (at / rows) as f64, top + LIST_LINE * (at % rows) as f64);
        svg.leaf("text", &[("class", &"start"), ("x", &Px(x)), ("y", &Px(y))], text);
    }
    if let Some(more @ 1..) = reconfigurations.len().checked_sub(LISTED_MOST) {
        let (x, y) = (Px(LIST_LEFT), Px(top + LIST_LINE * rows as f64));
        let text = format!("{} more are in report.json", words::grouped(more));
        svg.leaf("text", &[("class", &"start"), ("x", &x), ("y", &y)], text);
    }
    svg.line();
}

/// How high the list is.
pub(super) fn list_high(count: usize) -> f64 {
    let more = usize::from(count > LISTED_MOST);
    LIST_LINE * (rows(count) + more) as f64
}

fn rows(count: usize) -> usize {
    count.min(LISTED_MOST).div_ceil(COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(at: usize) -> String {
        (at + 1).to_string()
    }

    #[test]
    fn no_flag_is_left_out_or_lies_over_another_where_there_is_room() {
        let within = [0.0, 100.0];
        for wanted in [vec![50.0; 6], vec![99.0; 6], vec![0.0; 6], vec![1.0, 1.0, 50.0, 98.0, 99.0]]
        {
            let flags = numbered(&wanted, number, within);
            assert_eq!(flags.len(), wanted.len());
            assert!(flags.is_sorted_by(|one, next| next.1 - one.1 >= 7.2), "{flags:?}");
            assert!(flags[0].1 > 0.0 && flags.last().unwrap().1 < 100.0, "{flags:?}");
        }
        let few = numbered(&vec![50.0; 90], number, within);
        assert!((3..10).contains(&few.len()), "{few:?}");
        assert_eq!(few[1].2, number(few[1].0));
        assert_eq!(numbered(&[], number, within), []);
    }

    #[test]
    fn long_flags_stay_where_they_belong() {
        let long = |at: usize| format!("{at}: +12");
        let within = [0.0, 300.0];
        assert!(beside(&[50.0, 200.0], long, within, SHIFT_MOST).is_some());
        assert!(beside(&[50.0, 52.0], long, within, SHIFT_MOST).is_none());
    }
}
