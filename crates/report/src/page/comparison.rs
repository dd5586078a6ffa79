//! The run beside the static run that would have held the same data.

use crate::markup::Markup;
use crate::report::Report;
use crate::totals::STATIC_FILL_PERCENT;
use crate::words;

pub(super) fn draw(section: &mut Markup, report: &Report) {
    let totals = &report.totals;
    let Some(improvement) = totals.resource_usage_improvement() else {
        let text = match report.timeline.is_empty() {
            true => "There is nothing to compare: nothing was observed during this run.",
            false => "There is nothing to compare: a static run would have left no memory idle.",
        };
        return section.leaf("p", &[("class", &"quiet")], text);
    };
    table(section, report);
    section.element("p", &[], |p| {
        p.leaf(
            "strong",
            &[],
            format!("Resource usage improvement {}", words::percent(improvement)),
        );
        p.text(
            " = (W(static) \u{2212} W(this run)) / W(static), where W = A \u{2212} U is memory ",
        );
        p.text("allocated and not used, over time (MemEFS, section 3.4.4).");
    });
    let nodes = words::nodes(totals.static_run.nodes);
    let mut assumptions = format!(
        "The static run has {nodes}: the fewest that the peak of used memory fills to \
         {STATIC_FILL_PERCENT} % at most, and no fewer than this run's minimum. It is reckoned, not measured: as long as this run, with the same \
         data in it at the same time."
    );
    if let Some(other) = at_another_peak(report) {
        assumptions.push_str(&other);
    }
    section.leaf("p", &[("class", &"quiet")], assumptions);
}

/// What the improvement is against as many nodes as this run had at its most, if those are others.
fn at_another_peak(report: &Report) -> Option<String> {
    let totals = &report.totals;
    if totals.peak_allocated_bytes == totals.static_run.allocated_bytes {
        return None;
    }
    let other = totals.resource_usage_improvement_at_peak_nodes()?;
    let (nodes, other) = (words::nodes(totals.peak_nodes), words::percent(other));
    Some(format!(" Against {nodes}, the most that this run had, the improvement would be {other}."))
}

fn table(section: &mut Markup, report: &Report) {
    let totals = &report.totals;
    let fixed = &totals.static_run;
    let [allocated, allocated_static, used, idle, idle_static] = words::byte_seconds([
        totals.allocated_byte_seconds,
        fixed.allocated_byte_seconds,
        totals.used_byte_seconds,
        totals.wasted_byte_seconds(),
        totals.wasted_byte_seconds_static(),
    ]);
    let [nodes, nodes_static] = words::node_seconds([totals.node_seconds, fixed.node_seconds]);
    let rows = [
        ("A, memory allocated", &allocated, &allocated_static),
        ("U, memory used", &used, &used),
        ("W, memory idle", &idle, &idle_static),
        ("nodes in service", &nodes, &nodes_static),
    ];
    section.element("div", &[("class", &"scroll")], |div| {
        div.element("table", &[("class", &"comparison")], |table| {
            table.element("thead", &[], |head| {
                head.element("tr", &[], |tr| {
                    ["over time", "this run", "static run"]
                        .iter()
                        .for_each(|name| tr.leaf("th", &[("scope", &"col")], name));
                });
            });
            table.element("tbody", &[], |body| {
                for (name, elastic, fixed) in rows {
                    body.element("tr", &[], |tr| {
                        tr.leaf("th", &[("scope", &"row")], name);
                        tr.leaf("td", &[], elastic);
                        tr.leaf("td", &[], fixed);
                    });
                }
            });
        });
    });
}
