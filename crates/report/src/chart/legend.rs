//! What the colours stand for, above a picture.

use super::{Px, Width};
use crate::markup::Markup;

const LINE: f64 = 20.0;
const SWATCH: f64 = 20.0;
/// Between one entry and the next.
const GAP: f64 = 18.0;

/// How a thing is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Swatch {
    Line(&'static str),
    Area(&'static str),
    /// An area with its own line on top.
    Both(&'static str, &'static str),
    Mark(&'static str),
}

pub(super) type Entry = (Swatch, String);

/// How high the legend is.
pub(super) fn height(width: Width, entries: &[Entry]) -> f64 {
    places(width, entries).last().map_or(0.0, |place| place.1 + LINE)
}

pub(super) fn draw(svg: &mut Markup, width: Width, entries: &[Entry]) {
    for ((x, y), (swatch, text)) in places(width, entries).into_iter().zip(entries) {
        let middle = y + LINE / 2.0;
        match *swatch {
            Swatch::Line(class) => line(svg, class, x, middle),
            Swatch::Area(class) => block(svg, &format!("area {class}"), x, y),
            Swatch::Mark(class) => block(svg, &format!("mark {class}"), x, y),
            Swatch::Both(area, class) => {
                block(svg, &format!("area {area}"), x, y);
                line(svg, class, x, y + 5.0);
            }
        }
        let (x, y) = (Px(x + SWATCH + 6.0), Px(middle + 4.0));
        svg.leaf("text", &[("class", &"start"), ("x", &x), ("y", &y)], text);
    }
    svg.line();
}

/// Where each entry stands: side by side, and in a new line where the picture ends.
fn places(width: Width, entries: &[Entry]) -> Vec<(f64, f64)> {
    let (left, top) = (10.0, 4.0);
    let (mut x, mut y) = (left, top);
    let place = |(_, text): &Entry| {
        let wide = SWATCH + 6.0 + letters_wide(text) + GAP;
        if x > left && x + wide - GAP > width.units() {
            (x, y) = (left, y + LINE);
        }
        let here = (x, y);
        x += wide;
        here
    };
    entries.iter().map(place).collect()
}

/// About how wide a text is, in a font that is rather wide than narrow.
fn letters_wide(text: &str) -> f64 {
    let wide = |letter| match letter {
        'f' | 'i' | 'j' | 'l' | 't' | 'r' | ' ' | '(' | ')' => 4.4,
        'm' | 'w' => 11.0,
        _ => 7.4,
    };
    text.chars().map(wide).sum()
}

fn line(svg: &mut Markup, class: &str, x: f64, y: f64) {
    let path = format!("M{} {}h{}", Px(x), Px(y), Px(SWATCH));
    svg.empty("path", &[("class", &class), ("d", &path)]);
}

fn block(svg: &mut Markup, class: &str, x: f64, y: f64) {
    let path = format!("M{} {}h{}v10h-{}Z", Px(x), Px(y + 5.0), Px(SWATCH), Px(SWATCH));
    svg.empty("path", &[("class", &class), ("d", &path)]);
}
