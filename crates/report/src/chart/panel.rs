//! A rectangle with axes, in which values over time are drawn as steps.

use std::fmt::Write;

use super::Px;
use super::axis::{Axis, TimeAxis};
use crate::markup::Markup;

/// Where the rectangle lies in the picture, and what its edges stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    /// Seconds at the right edge.
    pub seconds: f64,
    /// The value at the top edge; the bottom edge is 0.
    pub value: f64,
}

impl Panel {
    pub fn x(&self, seconds: f64) -> f64 {
        let part = (seconds / self.seconds).clamp(0.0, 1.0);
        self.left + part * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (value / self.value).clamp(0.0, 1.0) * (self.bottom - self.top)
    }

    /// The heading above, the lines behind everything, and what they stand for.
    pub fn values(&self, svg: &mut Markup, heading: &str, axis: &Axis) {
        let (left, above) = (Px(10.0), Px(self.top - 12.0));
        svg.leaf("text", &[("class", &"heading start"), ("x", &left), ("y", &above)], heading);
        for (value, label) in &axis.ticks {
            let y = self.y(*value);
            let class = if *value == 0.0 { "base" } else { "grid" };
            self.horizontal(svg, class, y);
            let (x, y) = (Px(self.left - 8.0), Px(y + 4.0));
            svg.leaf("text", &[("class", &"end"), ("x", &x), ("y", &y)], label);
        }
        svg.line();
    }

    /// Time, below.
    pub fn times(&self, svg: &mut Markup, axis: &TimeAxis) {
        for (seconds, label) in &axis.ticks {
            let x = Px(self.x(*seconds));
            let (top, bottom) = (Px(self.bottom), Px(self.bottom + 4.0));
            let ends: [(&str, &dyn std::fmt::Display); 5] =
                [("class", &"base"), ("x1", &x), ("x2", &x), ("y1", &top), ("y2", &bottom)];
            svg.empty("line", &ends);
            let y = Px(self.bottom + 18.0);
            svg.leaf("text", &[("class", &"middle"), ("x", &x), ("y", &y)], label);
        }
        let (x, y) = (Px((self.left + self.right) / 2.0), Px(self.bottom + 36.0));
        svg.leaf("text", &[("class", &"middle"), ("x", &x), ("y", &y)], axis.name);
        svg.line();
    }

    /// A line across at one value.
    pub fn level(&self, svg: &mut Markup, class: &str, value: f64) {
        self.horizontal(svg, class, self.y(value));
    }

    fn horizontal(&self, svg: &mut Markup, class: &str, y: f64) {
        let (left, right, y) = (Px(self.left), Px(self.right), Px(y));
        let ends: [(&str, &dyn std::fmt::Display); 5] =
            [("class", &class), ("x1", &left), ("x2", &right), ("y1", &y), ("y2", &y)];
        svg.empty("line", &ends);
    }

    /// A line through values that each hold until the next one, and the last until `end`.
    pub fn steps(&self, svg: &mut Markup, class: &str, points: &[(f64, f64)], end: f64) {
        let Some(&(_, first)) = points.first() else { return };
        let mut path = format!("M{} {}", Px(self.x(0.0)), Px(self.y(first)));
        for &(seconds, value) in &points[1..] {
            push(&mut path, self.x(seconds), self.y(value));
        }
        let _ = write!(path, "H{}", Px(self.x(end)));
        svg.empty("path", &[("class", &class), ("d", &path)]);
        svg.line();
    }

    /// What lies between a lower and an upper value that hold until the next ones.
    pub fn area(&self, svg: &mut Markup, class: &str, points: &[(f64, f64, f64)], end: f64) {
        let Some(&(_, _, first)) = points.first() else { return };
        let mut path = format!("M{} {}", Px(self.x(0.0)), Px(self.y(first)));
        for &(seconds, _, upper) in &points[1..] {
            push(&mut path, self.x(seconds), self.y(upper));
        }
        let _ = write!(path, "H{}", Px(self.x(end)));
        for (at, &(seconds, lower, _)) in points.iter().enumerate().rev() {
            let start = if at == 0 { 0.0 } else { seconds };
            let _ = write!(path, "V{}H{}", Px(self.y(lower)), Px(self.x(start)));
        }
        path.push('Z');
        let class = format!("area {class}");
        svg.empty("path", &[("class", &class), ("d", &path)]);
        svg.line();
    }
}

/// Holds the last value until `x`, then goes to `y`.
fn push(path: &mut String, x: f64, y: f64) {
    let _ = write!(path, "H{}V{}", Px(x), Px(y));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANEL: Panel =
        Panel { left: 10.0, right: 110.0, top: 0.0, bottom: 50.0, seconds: 10.0, value: 5.0 };

    fn drawn(draw: impl FnOnce(&mut Markup)) -> String {
        let mut svg = Markup::default();
        draw(&mut svg);
        svg.into_document("")
    }

    #[test]
    fn values_hold_until_the_next() {
        let path = drawn(|svg| PANEL.steps(svg, "used", &[(1.0, 2.0), (5.0, 4.0)], 10.0));
        assert!(path.contains("d=\"M10 30H60V10H110\""), "{path}");
        let area = drawn(|svg| PANEL.area(svg, "used", &[(1.0, 0.0, 2.0), (5.0, 1.0, 4.0)], 10.0));
        assert!(area.contains("d=\"M10 30H60V10H110V40H60V50H10Z\""), "{area}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing_and_nothing_leaves_the_panel() {
        assert_eq!(drawn(|svg| PANEL.steps(svg, "used", &[], 10.0)).trim(), "");
        let path = drawn(|svg| PANEL.steps(svg, "used", &[(0.0, 99.0), (50.0, 1.0)], 99.0));
        assert!(path.contains("d=\"M10 0H110V40H110\""), "{path}");
    }
}
