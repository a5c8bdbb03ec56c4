//! A parser and a writer for S3 XML: small documents without significant attributes.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Reason for rejecting an XML document.
#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    /// The document is not well-formed.
    #[error("malformed XML: {0}")]
    Malformed(String),
    /// The document is nested deeper than any S3 document.
    #[error("the XML document is nested deeper than {MAX_DEPTH} elements")]
    TooDeep,
    /// The document has more elements or text than any S3 document.
    #[error("the XML document has more than {0}")]
    TooLarge(&'static str),
}

/// Maximum nesting depth. No S3 document comes near it; a hostile one may exceed it.
const MAX_DEPTH: usize = 16;

/// Maximum number of elements in a document that is parsed into a tree. A CompleteMultipartUpload request of 10,000
/// parts with checksums has 70,000.
const MAX_ELEMENTS: usize = 100_000;

/// Maximum number of elements below one child of the root. An object in a listing has about ten.
const MAX_ELEMENTS_OF_CHILD: usize = 1_000;

/// Maximum length of the text of one element, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// An element: its local name, text and children.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Element {
    /// Name without its namespace prefix.
    pub name: String,
    /// Character data directly inside the element, with entities resolved.
    pub text: String,
    /// Child elements in document order.
    pub children: Vec<Element>,
}

impl Element {
    /// Parses a document and returns its root.
    ///
    /// # Errors
    /// If the document is not UTF-8, not well-formed, empty, or larger or deeper than any S3 document.
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

    /// Parses a document and calls `visit` with the root's name and each child of the root, so that only one child at a
    /// time is in memory. Returns the root without its children.
    ///
    /// # Errors
    /// The errors of [`Element::parse`] and those of `visit`.
    pub fn each_child(
        document: &[u8],
        visit: impl FnMut(&str, Element) -> Result<(), XmlError>,
    ) -> Result<Element, XmlError> {
        Element::each_below(document, 1, visit)
    }

    /// Does the same as [`Element::each_child`] for the children of the root's children. Returns the root with its
    /// children, without theirs.
    ///
    /// # Errors
    /// The errors of [`Element::each_child`].
    pub fn each_grandchild(
        document: &[u8],
        mut visit: impl FnMut(Element) -> Result<(), XmlError>,
    ) -> Result<Element, XmlError> {
        Element::each_below(document, 2, |_, element| visit(element))
    }

    /// Parses a document and calls `visit` with each element `level` levels below the root and the name of its parent.
    fn each_below(
        document: &[u8],
        level: usize,
        mut visit: impl FnMut(&str, Element) -> Result<(), XmlError>,
    ) -> Result<Element, XmlError> {
        let malformed = |e: &dyn std::fmt::Display| XmlError::Malformed(e.to_string());
        let text = std::str::from_utf8(document).map_err(|e| malformed(&e))?;
        let mut reader = Reader::from_str(text);
        // The document itself, its root, and the open elements below the root.
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
                // Skip indentation between the elements that are visited, and above.
                Event::Text(text)
                    if (2..=level + 1).contains(&stack.len()) && text.xml10_content().trim().is_empty() =>
                {
                    None
                }
                other => {
                    let top = stack.last_mut().ok_or_else(|| malformed(&"unbalanced tags"))?;
                    top.add_text(&other)?;
                    None
                }
            };
            let Some(done) = closed else { continue };
            elements += 1;
            let depth = stack.len();
            let parent = stack.last_mut().ok_or_else(|| malformed(&"unbalanced tags"))?;
            if depth == level + 1 {
                elements = 0;
                visit(&parent.name, done)?;
            } else if elements > MAX_ELEMENTS_OF_CHILD {
                return Err(XmlError::TooLarge("1,000 elements in one entry"));
            } else {
                parent.children.push(done);
            }
        }
        if stack.len() != 1 {
            return Err(malformed(&"the document ends inside an element"));
        }
        stack
            .pop()
            .and_then(|root| root.children.into_iter().next())
            .ok_or_else(|| malformed(&"the document is empty"))
    }

    fn named(name: impl AsRef<str>) -> Result<Element, XmlError> {
        let name = name.as_ref();
        if name.len() > 256 {
            return Err(XmlError::TooLarge("256 characters in a name"));
        }
        Ok(Element { name: name.to_string(), ..Element::default() })
    }

    /// Appends the text of an event that is not a tag.
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

    /// Returns the number of elements in the tree, including this one.
    fn elements(&self) -> usize {
        1 + self.children.iter().map(Element::elements).sum::<usize>()
    }

    /// Returns the first child with this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|c| c.name == name)
    }

    /// Returns all children with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| c.name == name)
    }

    /// Returns the text of the first child with this name.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|c| c.text.as_str())
    }
}

/// A writer that builds a document element by element.
pub struct XmlWriter {
    out: String,
    open: Vec<&'static str>,
}

impl XmlWriter {
    /// Starts a document whose root has the S3 namespace.
    pub fn new(root: &'static str) -> XmlWriter {
        let out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        );
        XmlWriter { out, open: vec![root] }
    }

    /// Starts a document without a namespace, such as `Error`.
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

    /// Opens an element with attributes, which must be escaped already.
    pub fn open_with(&mut self, name: &'static str, attributes: &'static str) -> &mut XmlWriter {
        self.out.push_str(&format!("<{name} {attributes}>"));
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

    /// Writes an element that contains `value`, escaped.
    pub fn text(&mut self, name: &'static str, value: &str) -> &mut XmlWriter {
        self.open(name);
        escape_into(&mut self.out, value);
        self.close()
    }

    /// Closes all open elements and returns the document.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }
}

/// Appends text to `out`, with `&`, `<`, `>` and `"` replaced by entities and control characters by numeric references,
/// as S3 does.
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
    fn a_written_document_parses_back() {
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
    fn broken_documents_are_rejected() {
        for bad in ["", "<a>", "<a></b>", "<a>&nope;</a>", "no xml"] {
            assert!(Element::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = "<a>".repeat(40) + &"</a>".repeat(40);
        assert!(matches!(Element::parse(deep.as_bytes()), Err(XmlError::TooDeep)));
        assert!(Element::parse(&[0xff, 0xfe]).is_err());
    }

    /// Regression test: parsing 64 MiB of `<a/>` took 1.8 GB of memory.
    #[test]
    fn a_document_of_many_elements_is_rejected_or_read_one_at_a_time() {
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
