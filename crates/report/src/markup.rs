//! Text in angle brackets that is well-formed because of how it is made: what is opened is closed,
//! and whatever comes from outside is escaped.
//!
//! The subset is common to XML and HTML, so one way of writing serves the picture and the page.

use std::fmt::{Display, Write};

pub(crate) type Attribute<'a> = (&'a str, &'a dyn Display);

#[derive(Debug, Default)]
pub(crate) struct Markup {
    text: String,
}

impl Markup {
    /// An element with whatever `inside` writes.
    pub fn element(
        &mut self,
        name: &str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Markup),
    ) {
        self.open(name, attributes);
        self.text.push('>');
        inside(self);
        self.push(format_args!("</{name}>"));
    }

    /// An element that holds only text.
    pub fn leaf(&mut self, name: &str, attributes: &[Attribute<'_>], text: impl Display) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// An element that can hold nothing.
    pub fn empty(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        self.open(name, attributes);
        self.text.push_str("/>");
    }

    pub fn text(&mut self, text: impl Display) {
        escape(&text.to_string(), &mut self.text);
    }

    /// A style sheet of this crate. HTML does not unescape it, so it must need no escaping.
    pub fn style(&mut self, sheets: &[&'static str]) {
        debug_assert!(sheets.iter().all(|sheet| !sheet.contains(['<', '&'])));
        self.text.push_str("<style>");
        sheets.iter().for_each(|sheet| self.text.push_str(sheet));
        self.text.push_str("</style>");
    }

    /// A break between lines, for those who read the file.
    pub fn line(&mut self) {
        self.text.push('\n');
    }

    /// The document, after what its kind of file begins with.
    pub fn into_document(self, prologue: &'static str) -> String {
        format!("{prologue}\n{}\n", self.text)
    }

    fn open(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        self.push(format_args!("<{name}"));
        for (key, value) in attributes {
            self.push(format_args!(" {key}=\""));
            self.text(value);
            self.text.push('"');
        }
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("a string takes any text");
    }
}

/// Characters that no XML document may hold, not even escaped, become the replacement character.
fn escape(text: &str, into: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            '\t' | '\n' => into.push(letter),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                into.push('\u{fffd}');
            }
            _ => into.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_escaped_in_text_and_in_attributes() {
        let mut markup = Markup::default();
        markup.leaf("p", &[("title", &"\"'>")], "<script>a && b</script>");
        assert_eq!(
            markup.text,
            "<p title=\"&quot;&#39;&gt;\">&lt;script&gt;a &amp;&amp; b&lt;/script&gt;</p>"
        );
    }

    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        let mut markup = Markup::default();
        markup.text("a\0b\x1b[31m\u{ffff}\té\n");
        assert_eq!(markup.text, "a\u{fffd}b\u{fffd}[31m\u{fffd}\té\n");
    }
}
