//! Bodies to upload: in one piece, or in segments made on demand.

use std::rc::Rc;

use bytes::Bytes;

/// A body to upload: one piece, or segments made on demand so that a large object never exists in memory.
#[derive(Clone)]
pub enum Body {
    /// The whole object.
    Whole(Bytes),
    /// The object in consecutive segments.
    Segmented(Rc<dyn Segments>),
}

/// The segments of a large body.
pub trait Segments {
    /// Bytes in all.
    fn total(&self) -> u64;
    /// Segment `index`, or `None` past the end.
    fn segment(&self, index: usize) -> Option<Bytes>;

    /// The bytes `from..end`, where that can be had without going through all segments before.
    fn slice(&self, from: u64, end: u64) -> Option<Body> {
        let _ = (from, end);
        None
    }
}

/// The bytes `from..end` of segments that can only be gone through.
struct Slice {
    segments: Rc<dyn Segments>,
    from: u64,
    end: u64,
}

impl Segments for Slice {
    fn total(&self) -> u64 {
        self.end - self.from
    }

    fn segment(&self, index: usize) -> Option<Bytes> {
        let (mut at, mut seen) = (0, 0);
        for piece in (0..).map_while(|i| self.segments.segment(i)) {
            let (begin, end) = (at, at + piece.len() as u64);
            at = end;
            let (from, to) = (begin.max(self.from), end.min(self.end));
            if from < to {
                if seen == index {
                    return Some(piece.slice((from - begin) as usize..(to - begin) as usize));
                }
                seen += 1;
            }
        }
        None
    }
}

impl Body {
    /// Bytes in all.
    pub fn len(&self) -> u64 {
        match self {
            Body::Whole(data) => data.len() as u64,
            Body::Segmented(segments) => segments.total(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes `from..end`.
    pub fn slice(&self, from: u64, end: u64) -> Body {
        match self {
            Body::Whole(data) => Body::Whole(data.slice(from as usize..end as usize)),
            whole if from == 0 && end == whole.len() => whole.clone(),
            Body::Segmented(segments) => segments.slice(from, end).unwrap_or_else(|| {
                Body::Segmented(Rc::new(Slice { segments: Rc::clone(segments), from, end }))
            }),
        }
    }

    /// The pieces in order.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = Bytes>> {
        match self {
            Body::Whole(data) => Box::new(std::iter::once(data.clone())),
            Body::Segmented(segments) => {
                let segments = Rc::clone(segments);
                let mut index = 0;
                Box::new(std::iter::from_fn(move || {
                    index += 1;
                    segments.segment(index - 1)
                }))
            }
        }
    }
}
