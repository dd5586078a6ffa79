//! Pictures: the timeline (MemEFS, figures 3.1 and 3.5), runs side by side (figures 3.7 and 3.8) and
//! the balance (figure 3.9).
//!
//! Each picture is drawn at two widths. The narrow one is for a phone: shrinking the wide one there
//! would leave nobody able to read it.

mod axis;
mod balance;
mod bars;
mod boxes;
mod legend;
mod marks;
mod panel;
mod timeline;

use std::fmt;

use crate::markup::Markup;
use crate::report::Report;

pub(crate) use balance::balance;
pub(crate) use bars::{BarPanel, bars};
pub use boxes::{BoxPanel, box_plots};
pub(crate) use timeline::timeline;

/// Rules for everything inside a picture.
pub(crate) const STYLE: &str = include_str!("chart/style.css");

/// How wide a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Wide,
    Narrow,
}

impl Width {
    /// In the picture's own units, in which letters are 12 high.
    fn units(self) -> f64 {
        match self {
            Width::Wide => 960.0,
            Width::Narrow => 400.0,
        }
    }

    /// How many rows are drawn at most: about two for each point of a good display.
    fn points_most(self) -> usize {
        match self {
            Width::Wide => 2_000,
            Width::Narrow => 800,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Width::Wide => "chart wide",
            Width::Narrow => "chart narrow",
        }
    }

    /// Where the left edge of a panel lies: beside the widest label of a size.
    fn left(self) -> f64 {
        62.0
    }

    fn right(self) -> f64 {
        self.units() - 18.0
    }
}

/// `timeline.svg`: the wide timeline, with its rules in it.
pub(crate) fn timeline_document(report: &Report) -> String {
    let mut document = Markup::default();
    timeline(report, Width::Wide, true, &mut document);
    document.into_document("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")
}

/// An `svg` element around what `inside` draws.
fn picture(
    into: &mut Markup,
    width: Width,
    height: f64,
    title: &str,
    standalone: bool,
    inside: impl FnOnce(&mut Markup),
) {
    let (wide, high) = (Px(width.units()), Px(height));
    let view = format!("0 0 {wide} {high}");
    let mut attributes: Vec<(&str, &dyn fmt::Display)> = vec![
        ("xmlns", &"http://www.w3.org/2000/svg"),
        ("viewBox", &view),
        ("role", &"img"),
        ("aria-label", &title),
    ];
    let class = width.class();
    if standalone {
        attributes.extend([
            ("class", &"chart" as &dyn fmt::Display),
            ("width", &wide),
            ("height", &high),
        ]);
    } else {
        attributes.push(("class", &class));
    }
    into.element("svg", &attributes, |svg| {
        svg.leaf("title", &[], title);
        if standalone {
            svg.style(&[STYLE]);
        }
        svg.empty("rect", &[("class", &"ground"), ("width", &wide), ("height", &high)]);
        svg.line();
        inside(svg);
    });
    into.line();
}

/// A coordinate, to a tenth: no display shows more, and files stay small.
#[derive(Clone, Copy, Debug)]
struct Px(f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round();
        if tenths % 10.0 == 0.0 {
            write!(f, "{}", tenths / 10.0)
        } else {
            write!(f, "{:.1}", tenths / 10.0)
        }
    }
}
