//! XML as S3 uses it: small documents without attributes that matter, read into a tree, written by hand.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Why a document was refused.
#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    /// Not well-formed.
    #[error("malformed XML: {0}")]
    Malformed(String),
    /// Nested deeper than any S3 document.
    #[error("XML nested deeper than {MAX_DEPTH} elements")]
    TooDeep,
}

/// No S3 document comes near this depth; an attacker's does.
const MAX_DEPTH: usize = 16;

/// One element: local name, text, children.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Element {
    /// Name without its namespace prefix.
    pub name: String,
    /// Character data directly inside, entities resolved.
    pub text: String,
    /// Child elements in order.
    pub children: Vec<Element>,
}

impl Element {
    /// Reads a document and returns its root.
    ///
    /// # Errors
    /// When it is not UTF-8, not well-formed, empty or nested absurdly deep.
    pub fn parse(document: &[u8]) -> Result<Element, XmlError> {
        let malformed = |e: &dyn std::fmt::Display| XmlError::Malformed(e.to_string());
        let text = std::str::from_utf8(document).map_err(|e| malformed(&e))?;
        let mut reader = Reader::from_str(text);
        let mut stack = vec![Element::default()];
        loop {
            let event = reader.read_event().map_err(|e| malformed(&e))?;
            let Some(top) = stack.last_mut() else { return Err(malformed(&"unbalanced")) };
            match event {
                Event::Start(tag) => {
                    if stack.len() > MAX_DEPTH {
                        return Err(XmlError::TooDeep);
                    }
                    let name = tag.local_name();
                    stack.push(Element { name: local(name.as_ref()), ..Element::default() });
                }
                Event::Empty(tag) => {
                    let name = tag.local_name();
                    top.children.push(Element { name: local(name.as_ref()), ..Element::default() });
                }
                Event::End(_) => {
                    let done = stack.pop().unwrap_or_default();
                    stack.last_mut().ok_or_else(|| malformed(&"unbalanced"))?.children.push(done);
                }
                Event::Text(text) => top.text.push_str(&text.xml10_content()),
                Event::CData(text) => top.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => {
                    if let Some(c) = reference.resolve_char_ref().map_err(|e| malformed(&e))? {
                        top.text.push(c);
                    } else {
                        let name = reference.xml10_content();
                        let value = quick_xml::escape::resolve_xml_entity(&name);
                        top.text.push_str(value.ok_or_else(|| malformed(&format!("unknown entity {name}")))?);
                    }
                }
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
        if stack.len() != 1 {
            return Err(malformed(&"it ends inside an element"));
        }
        stack.pop().and_then(|root| root.children.into_iter().next()).ok_or_else(|| malformed(&"it is empty"))
    }

    /// The first child of that name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|c| c.name == name)
    }

    /// All children of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| c.name == name)
    }

    /// The text of the first child of that name.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|c| c.text.as_str())
    }
}

fn local(name: impl AsRef<str>) -> String {
    name.as_ref().to_string()
}

/// Writes a document, element by element.
pub struct XmlWriter {
    out: String,
    open: Vec<&'static str>,
}

impl XmlWriter {
    /// Begins a document whose root carries the S3 namespace.
    pub fn new(root: &'static str) -> XmlWriter {
        let out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        );
        XmlWriter { out, open: vec![root] }
    }

    /// Begins a document without a namespace, as `Error` has none.
    pub fn bare(root: &'static str) -> XmlWriter {
        XmlWriter { out: format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root}>"), open: vec![root] }
    }

    /// Opens an element.
    pub fn open(&mut self, name: &'static str) -> &mut XmlWriter {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
        self.open.push(name);
        self
    }

    /// Closes the innermost open element.
    pub fn close(&mut self) -> &mut XmlWriter {
        if let Some(name) = self.open.pop() {
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push('>');
        }
        self
    }

    /// Writes an element that holds text, escaped.
    pub fn text(&mut self, name: &'static str, value: &str) -> &mut XmlWriter {
        self.open(name);
        escape_into(&mut self.out, value);
        self.close()
    }

    /// Closes what is open and returns the document.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }
}

/// Appends text with the five entities and, as S3 does, control characters as numeric references.
fn escape_into(out: &mut String, text: &str) {
    use std::fmt::Write;
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "&#{};", c as u32);
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut writer = XmlWriter::new("Root");
        writer.open("Item").text("Key", "a&b <c> \"d\"\r\n 日本 ").text("Empty", "").close();
        let document = writer.finish();
        let root = Element::parse(document.as_bytes()).unwrap();
        let item = root.child("Item").unwrap();
        assert_eq!(item.text_of("Key"), Some("a&b <c> \"d\"\r\n 日本 "));
        assert_eq!(item.text_of("Empty"), Some(""));
        assert_eq!(root.all("Item").count(), 1);
    }

    #[test]
    fn refuses_what_is_broken() {
        for bad in ["", "<a>", "<a></b>", "<a>&nope;</a>", "no xml"] {
            assert!(Element::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = "<a>".repeat(40) + &"</a>".repeat(40);
        assert!(matches!(Element::parse(deep.as_bytes()), Err(XmlError::TooDeep)));
        assert!(Element::parse(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn namespace_prefixes_are_ignored() {
        let root = Element::parse(b"<s:Error xmlns:s='x'><s:Code>A</s:Code></s:Error>").unwrap();
        assert_eq!((root.name.as_str(), root.text_of("Code")), ("Error", Some("A")));
    }
}
