//! Upload bodies, either in one piece or in segments that are generated on demand.

use std::sync::Arc;

use bytes::Bytes;

/// An upload body. A large object is generated in segments, so that it never exists in memory as a whole.
#[derive(Clone)]
pub enum Body {
    /// The whole object in one piece.
    Whole(Bytes),
    /// The object in consecutive segments.
    Segmented(Arc<dyn Segments>),
}

/// A large body as a sequence of segments.
pub trait Segments: Send + Sync {
    /// Returns the total length in bytes.
    fn total(&self) -> u64;
    /// Returns segment `index`, or `None` past the end.
    fn segment(&self, index: usize) -> Option<Bytes>;

    /// Returns the bytes `from..end`, or `None` if all preceding segments would have to be generated.
    fn slice(&self, from: u64, end: u64) -> Option<Body> {
        let _ = (from, end);
        None
    }
}

/// The bytes `from..end` of segments that must be generated in sequence.
struct Slice {
    segments: Arc<dyn Segments>,
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
    /// Returns the total length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Body::Whole(data) => data.len() as u64,
            Body::Segmented(segments) => segments.total(),
        }
    }

    /// Returns true if the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes `from..end` as a body.
    pub fn slice(&self, from: u64, end: u64) -> Body {
        match self {
            Body::Whole(data) => Body::Whole(data.slice(from as usize..end as usize)),
            whole if from == 0 && end == whole.len() => whole.clone(),
            Body::Segmented(segments) => segments.slice(from, end).unwrap_or_else(|| {
                Body::Segmented(Arc::new(Slice { segments: Arc::clone(segments), from, end }))
            }),
        }
    }

    /// Returns the pieces of the body in order.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = Bytes> + Send> {
        match self {
            Body::Whole(data) => Box::new(std::iter::once(data.clone())),
            Body::Segmented(segments) => {
                let segments = Arc::clone(segments);
                let mut index = 0;
                Box::new(std::iter::from_fn(move || {
                    index += 1;
                    segments.segment(index - 1)
                }))
            }
        }
    }
}
