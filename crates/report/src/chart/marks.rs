//! Reconfigurations in a picture: a stripe of time each, and a flag with its number in the table.

use super::Px;
use super::legend::{Entry, Swatch};
use super::panel::Panel;
use crate::facts::{Kind, Reconfiguration};
use crate::markup::Markup;
use crate::words;

/// With more than this the edges of stripes would hide what lies behind them.
const EDGED_MOST: usize = 60;

/// How far a flag may reach past the right edge of its panel.
const MARGIN: f64 = 14.0;

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

/// Flags above a panel. Those that have no place beside the last one are left out.
pub(super) fn flags(svg: &mut Markup, panel: &Panel, reconfigurations: &[Reconfiguration]) {
    let from = panel.left + 6.0;
    let mut free = from;
    for (at, reconfiguration) in reconfigurations.iter().enumerate() {
        let Reconfiguration { kind, nodes_before, nodes_after, .. } = reconfiguration;
        let text = format!("{}: {}", at + 1, words::change(*nodes_before, *nodes_after));
        let half = 3.6 * text.chars().count() as f64;
        let end = reconfiguration.started_at + reconfiguration.seconds;
        let middle = (panel.x(reconfiguration.started_at) + panel.x(end)) / 2.0;
        let middle = middle.clamp(from + half, panel.right + MARGIN - half);
        if middle - half < free {
            continue;
        }
        free = middle + half + 6.0;
        let class = format!("flag middle {}", kind.name());
        let (x, y) = (Px(middle), Px(panel.top - 12.0));
        svg.leaf("text", &[("class", &class), ("x", &x), ("y", &y)], text);
    }
    svg.line();
}
