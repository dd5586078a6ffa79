//! How full the nodes are over time: the mean, how far they spread, and the extremes.

use super::axis::{Axis, TimeAxis};
use super::legend::{self, Entry, Swatch};
use super::panel::Panel;
use super::{Width, marks, picture};
use crate::balance::Fill;
use crate::markup::Markup;
use crate::report::Report;
use crate::thin::{Quantity, thin};

const HIGH: f64 = 180.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 46.0;

/// An instant, and how full the nodes were.
type Point = (f64, Fill);

const QUANTITIES: [Quantity<Point>; 4] =
    [|p| p.1.mean, |p| p.1.deviation, |p| p.1.emptiest, |p| p.1.fullest];

/// Draws the picture; `false` where no row says what each node held.
pub(crate) fn balance(report: &Report, width: Width, into: &mut Markup) -> bool {
    let points: Vec<Point> =
        report.timeline.iter().filter_map(|row| Some((row.t, Fill::new(&row.per_node)?))).collect();
    if points.is_empty() {
        return false;
    }
    let entries = entries(report);
    let top = legend::height(width, &entries) + ABOVE;
    let title = "How full the nodes are over time";
    picture(into, width, top + HIGH + BELOW, title, false, |svg| {
        legend::draw(svg, width, &entries);
        draw(svg, report, &points, width, top);
    });
    true
}

fn entries(report: &Report) -> Vec<Entry> {
    let mut entries = vec![
        (Swatch::Line("used"), "mean of the nodes".to_owned()),
        (Swatch::Area("deviation-area"), "one standard deviation".to_owned()),
        (Swatch::Area("spread-area"), "emptiest to fullest".to_owned()),
    ];
    entries.extend(marks::legend(&report.reconfigurations));
    entries
}

fn draw(svg: &mut Markup, report: &Report, points: &[Point], width: Width, top: f64) {
    let end = report.totals.observed_seconds;
    let fullest = points.iter().map(|point| point.1.fullest).fold(0.0, f64::max);
    let axis = Axis::percent(fullest, 4);
    let times = TimeAxis::new(end, if width == Width::Wide { 10 } else { 5 });
    let panel = Panel {
        left: width.left(),
        right: width.right(),
        top,
        bottom: top + HIGH,
        seconds: times.end,
        value: axis.end,
    };
    panel.values(svg, "Node memory in use", &axis);
    panel.times(svg, &times);
    marks::stripes(svg, &[panel], &report.reconfigurations);
    let points: Vec<_> = points.iter().collect();
    let points = thin(&points, &QUANTITIES, width.points_most());
    let between = |low: fn(&Fill) -> f64, high: fn(&Fill) -> f64| {
        points.iter().map(|(t, fill)| (*t, low(fill), high(fill))).collect::<Vec<_>>()
    };
    let spread = between(|fill| fill.emptiest, |fill| fill.fullest);
    let deviation = between(|f| f.mean - f.deviation, |f| f.mean + f.deviation);
    let mean: Vec<_> = points.iter().map(|(t, fill)| (*t, fill.mean)).collect();
    panel.area(svg, "spread-area", &spread, end);
    panel.area(svg, "deviation-area", &deviation, end);
    panel.steps(svg, "used", &mean, end);
}
