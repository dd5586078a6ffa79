//! Box plots side by side: least, quartiles and most of some values, beside what they are compared
//! with (Pufferscale, figures 3 and 4).

use super::{Px, Width, picture};
use crate::markup::Markup;

const HIGH: f64 = 240.0;
const ABOVE: f64 = 64.0;
const BELOW: f64 = 40.0;

/// One quantity, with its own scale.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxPanel {
    pub heading: String,
    /// A label, and the least value, the quartiles and the most.
    pub boxes: Vec<(String, [f64; 5])>,
    /// A line across, at a lower bound.
    pub reference: Option<f64>,
}

/// A document of its own.
pub fn box_plots(title: &str, panels: &[BoxPanel]) -> String {
    let mut document = Markup::default();
    picture(&mut document, Width::Wide, ABOVE + HIGH + BELOW, title, true, |svg| {
        let (x, y) = (Px(10.0), Px(22.0));
        svg.leaf("text", &[("class", &"heading start"), ("x", &x), ("y", &y)], title);
        let wide = (Width::Wide.units() - 20.0) / panels.len().max(1) as f64;
        for (at, panel) in panels.iter().enumerate() {
            Drawn::new(panel, 10.0 + at as f64 * wide, wide).draw(svg);
        }
    });
    document.into_document("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")
}

struct Drawn<'a> {
    panel: &'a BoxPanel,
    left: f64,
    right: f64,
    least: f64,
    most: f64,
}

impl<'a> Drawn<'a> {
    fn new(panel: &'a BoxPanel, from: f64, wide: f64) -> Drawn<'a> {
        let values = || panel.boxes.iter().flat_map(|(_, five)| five).chain(&panel.reference);
        let finite = || values().copied().filter(|value| value.is_finite());
        let (least, most) =
            (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        let margin = ((most - least) * 0.06).max(most.abs() * 1e-3).max(1e-9);
        Drawn {
            panel,
            left: from + 58.0,
            right: from + wide - 12.0,
            least: least - margin,
            most: most + margin,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value - self.least) / (self.most - self.least);
        ABOVE + HIGH * (1.0 - part.clamp(0.0, 1.0))
    }

    fn draw(&self, svg: &mut Markup) {
        let (x, y) = (Px(self.left - 48.0), Px(ABOVE - 14.0));
        let heading = &self.panel.heading;
        svg.leaf("text", &[("class", &"heading start"), ("x", &x), ("y", &y)], heading);
        for tick in 0..=4 {
            let value = self.least + (self.most - self.least) * f64::from(tick) / 4.0;
            self.across(svg, "grid", value);
            let (x, y) = (Px(self.left - 6.0), Px(self.y(value) + 4.0));
            let label = format!("{value:.3}");
            svg.leaf("text", &[("class", &"end"), ("x", &x), ("y", &y)], label);
        }
        if let Some(reference) = self.panel.reference {
            self.across(svg, "base", reference);
        }
        let wide = (self.right - self.left) / self.panel.boxes.len().max(1) as f64;
        for (at, (label, five)) in self.panel.boxes.iter().enumerate() {
            self.one(svg, label, *five, self.left + (at as f64 + 0.5) * wide, wide * 0.5);
        }
        svg.line();
    }

    fn across(&self, svg: &mut Markup, class: &str, value: f64) {
        let (left, right, y) = (Px(self.left), Px(self.right), Px(self.y(value)));
        let ends: [(&str, &dyn std::fmt::Display); 5] =
            [("class", &class), ("x1", &left), ("x2", &right), ("y1", &y), ("y2", &y)];
        svg.empty("line", &ends);
    }

    fn one(&self, svg: &mut Markup, label: &str, five: [f64; 5], middle: f64, wide: f64) {
        let [min, p25, p50, p75, max] = five.map(|value| self.y(value));
        let (left, right) = (middle - wide / 2.0, middle + wide / 2.0);
        let (low, high) = (Px(p25), Px(p75.min(p25 - 1.0)));
        let area = format!("M{} {low}H{}V{high}H{}Z", Px(left), Px(right), Px(left));
        svg.element("path", &[("class", &"area deviation-area"), ("d", &area)], |path| {
            let [min, p25, p50, p75, max] = five;
            let tip = format!("{min:.4}, {p25:.4}, {p50:.4}, {p75:.4}, {max:.4}");
            path.leaf("title", &[], tip);
        });
        let lines = format!(
            "M{0} {1}V{2}M{0} {3}V{4}M{5} {6}H{7}",
            Px(middle),
            Px(max),
            high,
            low,
            Px(min),
            Px(left),
            Px(p50),
            Px(right)
        );
        svg.empty("path", &[("class", &"used"), ("d", &lines)]);
        let (x, y) = (Px(middle), Px(ABOVE + HIGH + 20.0));
        svg.leaf("text", &[("class", &"middle"), ("x", &x), ("y", &y)], label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_stands_where_its_values_are() {
        let panel = BoxPanel {
            heading: "a < b".to_owned(),
            boxes: vec![("ldt".to_owned(), [1.0, 2.0, 3.0, 4.0, 5.0])],
            reference: Some(1.0),
        };
        let drawn = Drawn::new(&panel, 0.0, 400.0);
        assert!(drawn.y(5.0) < drawn.y(3.0) && drawn.y(3.0) < drawn.y(1.0));
        let svg = box_plots("title", &[panel]);
        assert!(svg.contains("a &lt; b") && svg.contains("ldt"));
        assert!(svg.contains("1.0000, 2.0000, 3.0000, 4.0000, 5.0000"));
    }

    #[test]
    fn values_that_are_all_the_same_or_absent_are_drawn() {
        let flat = |boxes| BoxPanel { heading: String::new(), boxes, reference: None };
        for panel in [flat(vec![(String::new(), [1.0; 5])]), flat(Vec::new())] {
            let svg = box_plots("", &[panel]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(!box_plots("", &[]).contains("NaN"));
    }
}
