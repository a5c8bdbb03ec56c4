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
    /// More elements or text than any S3 document has.
    #[error("XML with more than {0}")]
    TooLarge(&'static str),
}

/// No S3 document comes near this depth; an attacker's does.
const MAX_DEPTH: usize = 16;

/// Most elements of a document that is read into a tree. CompleteMultipartUpload of 10,000 parts with checksums has 70,000.
const MAX_ELEMENTS: usize = 100_000;

/// Most elements below one child of the root, where children are read one at a time. An object of a listing has about ten.
const MAX_ELEMENTS_OF_CHILD: usize = 1_000;

/// Most bytes of the text of one element.
const MAX_TEXT: usize = 64 << 10;

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
    /// When it is not UTF-8, not well-formed, empty, or larger or deeper than any S3 document.
    pub fn parse(document: &[u8]) -> Result<Element, XmlError> {
        let (mut children, mut elements) = (Vec::new(), 0);
        let root = Element::each_child(document, |_, child| {
            elements += child.elements();
            if elements > MAX_ELEMENTS {
                return Err(XmlError::TooLarge("100,000 elements"));
            }
            children.push(child);
            Ok(())
        })?;
        Ok(Element { children, ..root })
    }

    /// Reads a document and hands each child of its root to `visit` with the root's name, so that never more than one child is in
    /// memory; returns the root without its children.
    ///
    /// # Errors
    /// As [`Element::parse`], and the errors of `visit`.
    pub fn each_child(
        document: &[u8],
        mut visit: impl FnMut(&str, Element) -> Result<(), XmlError>,
    ) -> Result<Element, XmlError> {
        let malformed = |e: &dyn std::fmt::Display| XmlError::Malformed(e.to_string());
        let text = std::str::from_utf8(document).map_err(|e| malformed(&e))?;
        let mut reader = Reader::from_str(text);
        // The document itself, its root, and what is open below.
        let mut stack = vec![Element::default()];
        let mut elements = 0;
        loop {
            let event = reader.read_event().map_err(|e| malformed(&e))?;
            let closed = match event {
                Event::Start(tag) => {
                    if stack.len() > MAX_DEPTH {
                        return Err(XmlError::TooDeep);
                    }
                    stack.push(Element::named(tag.local_name().as_ref())?);
                    None
                }
                Event::Empty(tag) => Some(Element::named(tag.local_name().as_ref())?),
                Event::End(_) => stack.pop(),
                Event::Eof => break,
                // Indentation between the children of the root.
                Event::Text(text) if stack.len() == 2 && text.xml10_content().trim().is_empty() => None,
                other => {
                    let top = stack.last_mut().ok_or_else(|| malformed(&"unbalanced"))?;
                    top.add_text(&other)?;
                    None
                }
            };
            let Some(done) = closed else { continue };
            elements += 1;
            let depth = stack.len();
            let parent = stack.last_mut().ok_or_else(|| malformed(&"unbalanced"))?;
            if depth == 2 {
                elements = 0;
                visit(&parent.name, done)?;
            } else if elements > MAX_ELEMENTS_OF_CHILD {
                return Err(XmlError::TooLarge("1,000 elements in one"));
            } else {
                parent.children.push(done);
            }
        }
        if stack.len() != 1 {
            return Err(malformed(&"it ends inside an element"));
        }
        stack.pop().and_then(|root| root.children.into_iter().next()).ok_or_else(|| malformed(&"it is empty"))
    }

    fn named(name: impl AsRef<str>) -> Result<Element, XmlError> {
        let name = name.as_ref();
        if name.len() > 256 {
            return Err(XmlError::TooLarge("256 characters in a name"));
        }
        Ok(Element { name: name.to_string(), ..Element::default() })
    }

    /// Adds the text of an event that is not a tag.
    fn add_text(&mut self, event: &Event<'_>) -> Result<(), XmlError> {
        let malformed = |e: &dyn std::fmt::Display| XmlError::Malformed(e.to_string());
        match event {
            Event::Text(text) => self.text.push_str(&text.xml10_content()),
            Event::CData(text) => self.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                if let Some(c) = reference.resolve_char_ref().map_err(|e| malformed(&e))? {
                    self.text.push(c);
                } else {
                    let name = reference.xml10_content();
                    let value = quick_xml::escape::resolve_xml_entity(&name);
                    self.text.push_str(value.ok_or_else(|| malformed(&format!("unknown entity {name}")))?);
                }
            }
            _ => {}
        }
        if self.text.len() > MAX_TEXT { Err(XmlError::TooLarge("64 KiB of text")) } else { Ok(()) }
    }

    /// Number of elements of the tree, this one included.
    fn elements(&self) -> usize {
        1 + self.children.iter().map(Element::elements).sum::<usize>()
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

    /// 64 MiB of `<a/>` took 1.8 GB.
    #[test]
    fn a_document_of_many_elements_is_refused_or_read_one_at_a_time() {
        let many = format!("<r>{}</r>", "<a/>".repeat(MAX_ELEMENTS + 1));
        assert!(matches!(Element::parse(many.as_bytes()), Err(XmlError::TooLarge(_))));
        let mut seen = 0;
        let root = Element::each_child(many.as_bytes(), |root, child| {
            assert_eq!((root, child.name.as_str()), ("r", "a"));
            seen += 1;
            Ok(())
        });
        assert!(root.unwrap().children.is_empty() && seen == MAX_ELEMENTS + 1);
        let indented = format!("<r>{}</r>", "\n       <c>1</c>".repeat(20_000));
        assert_eq!(Element::parse(indented.as_bytes()).unwrap().children.len(), 20_000);
        let nested = format!("<r><c>{}</c></r>", "<a/>".repeat(MAX_ELEMENTS_OF_CHILD + 1));
        let text = format!("<r><c>{}</c></r>", "x".repeat(MAX_TEXT + 1));
        let name = format!("<r><{}/></r>", "x".repeat(300));
        for large in [nested, text, name] {
            let refused = Element::each_child(large.as_bytes(), |_, _| Ok(()));
            assert!(matches!(refused, Err(XmlError::TooLarge(_))), "{:.40}", large);
        }
    }

    #[test]
    fn namespace_prefixes_are_ignored() {
        let root = Element::parse(b"<s:Error xmlns:s='x'><s:Code>A</s:Code></s:Error>").unwrap();
        assert_eq!((root.name.as_str(), root.text_of("Code")), ("Error", Some("A")));
    }
}
