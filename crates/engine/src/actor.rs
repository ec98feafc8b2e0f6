//! Who asks for a change.

/// Who asks for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A visitor, about their own place: not audited.
    Visitor,
    /// The holder of a key: audited under its name.
    Operator(String),
    /// The program itself, e.g. for its configuration file: audited under that name.
    System(&'static str),
    /// The program's clockwork, e.g. the end of a round: it carries out what the rules say, so it is not audited.
    Clockwork,
}

impl Actor {
    /// The name the audit keeps; `None` where nothing is audited.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Visitor | Self::Clockwork => None,
            Self::Operator(name) => Some(name),
            Self::System(name) => Some(name),
        }
    }
}
