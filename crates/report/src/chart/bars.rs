//! Bars side by side: fractions of several runs in per cent, which may be below nothing (MemEFS,
//! figures 3.7 and 3.8).

use super::axis::Axis;
use super::legend::{self, Swatch};
use super::{Px, Width, picture};
use crate::markup::Markup;

const HIGH: f64 = 200.0;
/// For the heading, and below for the names of the groups.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 30.0;
/// Beside the longest label of the scale.
const SCALE: f64 = 52.0;
const TICKS: u32 = 4;
/// The part of a group's width that its bars take.
const FILLED: f64 = 0.7;

/// One picture, with its own scale.
#[derive(Clone, Debug)]
pub(crate) struct BarPanel {
    pub heading: &'static str,
    /// Of each bar of a group: its class, and what it is.
    pub series: &'static [(&'static str, &'static str)],
    /// A name, and the height of each bar.
    pub groups: Vec<(String, Vec<f64>)>,
    /// A line across.
    pub reference: Option<f64>,
}

/// All panels, side by side where there is room.
pub(crate) fn bars(title: &str, panels: &[BarPanel], width: Width, into: &mut Markup) {
    let entries: Vec<_> = panels.iter().flat_map(|panel| panel.series).collect();
    let entries: Vec<_> =
        entries.iter().map(|(class, name)| (Swatch::Area(class), (*name).to_owned())).collect();
    let top = legend::height(width, &entries);
    let each = ABOVE + HIGH + BELOW;
    let columns = if width == Width::Wide { panels.len().max(1) } else { 1 };
    let rows = panels.len().div_ceil(columns);
    picture(into, width, top + each * rows as f64, title, false, |svg| {
        legend::draw(svg, width, &entries);
        let wide = width.units() / columns as f64;
        for (at, panel) in panels.iter().enumerate() {
            let left = (at % columns) as f64 * wide;
            let above = top + (at / columns) as f64 * each + ABOVE;
            Drawn::new(panel, left + SCALE, left + wide - 14.0, above).draw(svg);
        }
    });
}

struct Drawn<'a> {
    panel: &'a BarPanel,
    left: f64,
    right: f64,
    top: f64,
    axis: Axis,
    /// Where the scale begins: 0, or a tick below the least bar.
    least: f64,
}

impl<'a> Drawn<'a> {
    fn new(panel: &'a BarPanel, left: f64, right: f64, top: f64) -> Drawn<'a> {
        let values = || panel.groups.iter().flat_map(|(_, values)| values).chain(&panel.reference);
        let most = values().copied().fold(0.0, f64::max);
        let least = values().copied().fold(0.0, f64::min);
        let mut axis = Axis::percent(most, TICKS);
        let step = axis.ticks.get(1).map_or(1.0, |tick| tick.0);
        let below = (-least / step).ceil() as u32;
        for at in 1..=below {
            let value = -f64::from(at) * step;
            axis.ticks.push((value, format!("\u{2212}{:.0} %", -100.0 * value)));
        }
        Drawn { panel, left, right, top, axis, least: -f64::from(below) * step }
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value - self.least) / (self.axis.end - self.least);
        self.top + HIGH * (1.0 - part.clamp(0.0, 1.0))
    }

    fn draw(&self, svg: &mut Markup) {
        let (x, y) = (Px(self.left - SCALE + 10.0), Px(self.top - 16.0));
        svg.leaf("text", &[("class", &"heading start"), ("x", &x), ("y", &y)], self.panel.heading);
        for (value, label) in &self.axis.ticks {
            self.across(svg, if *value == 0.0 { "base" } else { "grid" }, *value);
            let (x, y) = (Px(self.left - 6.0), Px(self.y(*value) + 4.0));
            svg.leaf("text", &[("class", &"end"), ("x", &x), ("y", &y)], label);
        }
        let wide = (self.right - self.left) / self.panel.groups.len().max(1) as f64;
        for (at, (name, values)) in self.panel.groups.iter().enumerate() {
            let left = self.left + at as f64 * wide;
            self.group(svg, name, values, left + wide * (1.0 - FILLED) / 2.0, wide * FILLED);
            let (x, y) = (Px(left + wide / 2.0), Px(self.top + HIGH + 18.0));
            svg.leaf("text", &[("class", &"middle"), ("x", &x), ("y", &y)], name);
        }
        if let Some(reference) = self.panel.reference {
            self.across(svg, "base", reference);
        }
        svg.line();
    }

    fn across(&self, svg: &mut Markup, class: &str, value: f64) {
        let (left, right, y) = (Px(self.left), Px(self.right), Px(self.y(value)));
        svg.empty(
            "line",
            &[("class", &class), ("x1", &left), ("x2", &right), ("y1", &y), ("y2", &y)],
        );
    }

    fn group(&self, svg: &mut Markup, name: &str, values: &[f64], left: f64, wide: f64) {
        let each = wide / self.panel.series.len().max(1) as f64;
        for (at, (value, (class, what))) in values.iter().zip(self.panel.series).enumerate() {
            let from = left + at as f64 * each;
            let (low, high) = (Px(self.y(0.0)), Px(self.y(*value)));
            let bar = format!("M{} {low}V{high}H{}V{low}Z", Px(from), Px(from + each));
            let class = format!("area {class}");
            svg.element("path", &[("class", &class), ("d", &bar)], |path| {
                path.leaf("title", &[], format!("{name}, {what}: {:.1} %", 100.0 * value));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(values: &[f64]) -> BarPanel {
        BarPanel {
            heading: "a < b",
            series: &[("used-area", "one"), ("allocated-area", "other")],
            groups: vec![("cso+csi".to_owned(), values.to_vec())],
            reference: Some(1.0),
        }
    }

    #[test]
    fn a_bar_is_as_high_as_its_value_and_goes_below_nothing() {
        let panel = panel(&[0.5, -0.3]);
        let drawn = Drawn::new(&panel, 0.0, 400.0, 0.0);
        let (nothing, half, below) = (drawn.y(0.0), drawn.y(0.5), drawn.y(-0.3));
        assert!(half < nothing && nothing < below && below <= HIGH, "{half} {nothing} {below}");
        assert!((drawn.y(-0.5) - drawn.y(0.0) - (drawn.y(0.0) - drawn.y(0.5))).abs() < 1e-9);
        let ticks: Vec<_> = drawn.axis.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(ticks, ["0 %", "50 %", "100 %", "\u{2212}50 %"]);
    }

    #[test]
    fn panels_are_drawn_at_both_widths_and_without_any_run() {
        for width in [Width::Wide, Width::Narrow] {
            let mut drawn = Markup::default();
            bars("title", &[panel(&[0.5, 0.1]), panel(&[2.5, 0.0])], width, &mut drawn);
            bars("title", &[BarPanel { groups: Vec::new(), ..panel(&[]) }], width, &mut drawn);
            let text = drawn.into_document("");
            assert!(text.contains("cso+csi, one: 50.0 %") && text.contains("a &lt; b"), "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
