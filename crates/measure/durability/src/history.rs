//! Operations of clients, and the states that each key may have after them.

use super::content::ContentId;

/// One operation on a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Writes an object of this size.
    Put(u64),
    /// Writes an object in parts of these sizes.
    Multipart(Vec<u64>),
    /// Copies another key, which has this content.
    Copy(String, ContentId),
    /// Deletes the object.
    Delete,
    /// Sets the tag of the object to the number of the operation.
    Tag,
    /// Writes a version of this size, whose key ends with the number of the operation.
    Version(u64),
    /// Deletes a version for good.
    DeleteVersion,
}

/// Kind of an operation, as the answer counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// A PUT of a new key.
    Put,
    /// A PUT of an existing key.
    Overwrite,
    /// A multipart upload.
    Multipart,
    /// A copy of an object.
    Copy,
    /// Removal of an object.
    Delete,
    /// A change of tags.
    Tag,
    /// A version of an object in a bucket that keeps them.
    Version,
    /// Removal of a version for good.
    DeleteVersion,
}

impl OperationKind {
    /// All kinds of operations.
    pub const ALL: [OperationKind; 8] = [
        OperationKind::Put,
        OperationKind::Overwrite,
        OperationKind::Multipart,
        OperationKind::Copy,
        OperationKind::Delete,
        OperationKind::Tag,
        OperationKind::Version,
        OperationKind::DeleteVersion,
    ];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Put => "put",
            OperationKind::Overwrite => "overwrite",
            OperationKind::Multipart => "multipart upload",
            OperationKind::Copy => "copy",
            OperationKind::Delete => "delete",
            OperationKind::Tag => "tags",
            OperationKind::Version => "version",
            OperationKind::DeleteVersion => "delete of a version",
        }
    }
}

/// An operation with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedOperation {
    /// Number, unique in a cut.
    pub id: u64,
    /// Key on which it works, without the prefix of the check.
    pub key: String,
    /// Effect of the operation.
    pub action: Action,
    /// True if the key had an object.
    pub existed: bool,
}

impl NumberedOperation {
    /// Returns the kind of the operation.
    pub fn kind(&self) -> OperationKind {
        match self.action {
            Action::Put(_) if self.existed => OperationKind::Overwrite,
            Action::Put(_) => OperationKind::Put,
            Action::Multipart(_) => OperationKind::Multipart,
            Action::Copy(..) => OperationKind::Copy,
            Action::Delete => OperationKind::Delete,
            Action::Tag => OperationKind::Tag,
            Action::Version(_) => OperationKind::Version,
            Action::DeleteVersion => OperationKind::DeleteVersion,
        }
    }

    /// Returns the state of the key after the operation.
    pub fn applied(&self, before: KeyState) -> KeyState {
        let written = |operation, size| KeyState { content: Some(ContentId { operation, size }), tag: None };
        match &self.action {
            Action::Put(size) | Action::Version(size) => written(self.id, *size),
            Action::Multipart(parts) => written(self.id, parts.iter().sum()),
            // A copy takes the tags of its source; sources have none.
            Action::Copy(_, content) => KeyState { content: Some(*content), tag: None },
            Action::Delete | Action::DeleteVersion => KeyState::default(),
            Action::Tag => KeyState { tag: before.content.map(|_| self.id), ..before },
        }
    }
}

impl std::fmt::Display for NumberedOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NumberedOperation { id, key, .. } = self;
        match &self.action {
            Action::Put(size) => write!(f, "PUT {key} ({size} bytes)"),
            Action::Multipart(parts) => {
                let sizes: Vec<String> = parts.iter().map(u64::to_string).collect();
                write!(f, "multipart upload of {key} (parts of {} bytes)", sizes.join(" and "))
            }
            Action::Copy(from, _) => write!(f, "copy of {from} to {key}"),
            Action::Delete => write!(f, "DELETE {key}"),
            Action::Tag => write!(f, "PUT tag {id} of {key}"),
            Action::Version(size) => write!(f, "PUT version {key} ({size} bytes)"),
            Action::DeleteVersion => write!(f, "DELETE version {key}"),
        }
    }
}

/// State of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyState {
    /// Content of the object; `None` if there is no object.
    pub content: Option<ContentId>,
    /// Number of the operation that set the tag; `None` if the object has none.
    pub tag: Option<u64>,
}

/// An operation with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Operation with its number.
    pub operation: NumberedOperation,
    /// Time of the acknowledgement on the monotonic clock, in nanoseconds; `None` if there was none, so that the
    /// operation may or may not have had its effect.
    pub acknowledged_ns: Option<u64>,
}

/// Expected states of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// States that are correct: that of the last acknowledged operation, and those of later operations without an
    /// answer.
    pub states: Vec<KeyState>,
    /// Contents that the key had before, the newest last.
    pub earlier: Vec<ContentId>,
    /// Tags that the key had before.
    pub earlier_tags: Vec<u64>,
    /// The operations in order, with their answers.
    pub history: Vec<String>,
    /// The last acknowledged operation; `None` if none was.
    pub last: Option<Event>,
}

/// Returns what to expect of a key after these events, which one client executed one after the other.
pub fn expected<'a>(events: impl IntoIterator<Item = &'a Event>) -> Expected {
    let mut found = Expected {
        states: vec![KeyState::default()],
        earlier: Vec::new(),
        earlier_tags: Vec::new(),
        history: Vec::new(),
        last: None,
    };
    for event in events {
        let before = found.states.last().copied().unwrap_or_default();
        let after = event.operation.applied(before);
        let answer =
            if event.acknowledged_ns.is_some() { "acknowledged" } else { "no answer before the cut" };
        found.history.push(format!("{}: {answer}", event.operation));
        if event.acknowledged_ns.is_some() {
            found.earlier.extend(found.states.iter().filter_map(|state| state.content));
            found.earlier_tags.extend(found.states.iter().filter_map(|state| state.tag));
            found.states = vec![after];
            found.last = Some(event.clone());
        } else {
            found.states.push(after);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, action: Action, is_acknowledged: bool) -> Event {
        let operation = NumberedOperation { id, key: "k".into(), action, existed: id > 0 };
        Event { operation, acknowledged_ns: is_acknowledged.then_some(id) }
    }

    #[test]
    fn an_operation_without_an_answer_may_have_had_its_effect() {
        let events = [event(0, Action::Put(8), true), event(1, Action::Delete, false)];
        let contents = expected(&events).states.into_iter().map(|state| state.content.map(|id| id.operation));
        assert_eq!(contents.collect::<Vec<_>>(), [Some(0), None]);
    }

    #[test]
    fn an_acknowledged_operation_settles_the_state() {
        let events =
            [event(0, Action::Put(8), true), event(1, Action::Put(9), true), event(2, Action::Tag, true)];
        let found = expected(&events);
        assert_eq!(
            found.states,
            [KeyState { content: Some(ContentId { operation: 1, size: 9 }), tag: Some(2) }]
        );
        assert_eq!(found.earlier[0].operation, 0);
        assert_eq!(found.last.map(|event| event.operation.id), Some(2));
    }
}
