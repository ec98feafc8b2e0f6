//! Every key and channel we use in Redis, spelt here and nowhere else.
//!
//! `P` is the prefix, `N` the number of the content, `R` the name of a room:
//!
//! ```text
//! P:N:{r/R}:room            hash    b version it was born with, v version, e epoch, g newest generation, j last position joined in
//!                                   it, r lineage of the last commit, s the room (sealed), f token of the restore that froze it
//! P:N:{r/R}:taken           hash    generation and index of a chunk -> its bits
//! P:N:{r/R}:node:<node>     string  "birth number joined": the node's last write and the answer to it; goes after a day
//! P:N:{r/R}:lease           string  the node that has the lease; goes when it runs out
//! P:N:{r/R}:sessions:<gen>  hash    position -> session (sealed)
//! P:N:{r/R}:ending:<gen>    zset    position by end: sessions that are active
//! P:N:{r/R}:ended:<gen>     zset    position by end: all retained sessions
//! P:N:{r/R}:records         stream  events of rooms (e) and visitors (v), audit records (a), sealed, pending; by microsecond
//! P:N:{r/R}:answers         hash    key of a repeatable call -> its answer (sealed); goes when nothing is added
//! P:N:{r/R}:answers:ends    zset    keys of repeatable calls by when they are forgotten; likewise
//! P:N:{r/R}:trace           hash    g, v, e of a deleted room of this name
//! P:N:{store}:names         zset    names of rooms by the second they were noted: all rooms, and deleted ones that left something
//! P:N:{store}:shared        hash    g, v, e: one trace for all names that have none of their own any more
//! P:N:{store}:values        hash    name -> value
//! P:N:{store}:records       stream  events (e) and audit records (a) of no room, pending
//! P:N:{store}:events        stream  events of rooms (sealed) by number
//! P:N:{store}:visitor-events stream  events of visitors (sealed) by number
//! P:N:{store}:audit         stream  audit records (sealed) by number
//! P:N:{store}:collected     hash    scope of records -> lineage and id of the last one that got its number
//! P:N:{store}:numbers       hash    events, audit: the last numbers given; values, names: how often they have changed;
//!                                   dropped:e, dropped:v: through which number events are gone, and count:e, count:v how many
//! P:N:{store}:work:W        string  the node that does the work W; goes when its time is over
//! P:{store}:content         string  N, the content that counts: a restore writes the next one beside it and then switches
//! P:{store}:restoring       string  token of the restore that runs; goes when nobody extends it
//! P:{store}:mark            string  made once; another one, or none, means that the store has been emptied
//! P:{store}:replicas        string  there if replicas were ever seen
//! P:{r/R}:confirmed         string  what a confirmation writes; goes after a minute. Likewise P:{store}:confirmed
//! P:{r/R}:news              sharded channel: "room", "names". Likewise P:{store}:news: "names", "values"
//! ```
//!
//! Beside them, in the same Redis or in another: `rate_limit:<policy>:<who>`, a bucket, written by [`crate::buckets::BucketKey`]; hash
//! of `tokens`, `last_refill`, `limit`; goes when it is full. It has no tag.
//!
//! *On hash tags:* everything of one room has the tag `{r/R}`, so that a commit is one script on one slot of a cluster. What
//! concerns no room has the tag `{store}`, which no room can have. No command touches keys of two tags.

use anteroom_core::{EventClass, Generation, RoomId};

use super::slot::slot_of_tag;
use crate::contract::NodeId;

/// What the keys of a room, or of the whole store, have in common: they are on one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum KeyScope {
    /// The whole store.
    Store,
    /// One room.
    Room(RoomId),
}

impl KeyScope {
    fn tag(&self) -> String {
        match self {
            Self::Store => "store".to_owned(),
            Self::Room(room) => format!("r/{}", room.as_str()),
        }
    }

    /// The scope that is written like this in `collected`; see [`Self::name`].
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Store => "",
            Self::Room(room) => room.as_str(),
        }
    }

    pub(super) fn slot(&self) -> u16 {
        slot_of_tag(self.tag().as_bytes())
    }
}

impl From<&RoomId> for KeyScope {
    fn from(room: &RoomId) -> Self {
        Self::Room(room.clone())
    }
}

/// The keys of one content of one store.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    content: u64,
}

impl Keys {
    pub(super) fn new(prefix: &str, content: u64) -> Self {
        Self { prefix: prefix.to_owned(), content }
    }

    pub(super) fn of_content(&self, content: u64) -> Self {
        Self { prefix: self.prefix.clone(), content }
    }

    pub(super) const fn content(&self) -> u64 {
        self.content
    }

    fn of(&self, scope: &KeyScope, what: &str) -> String {
        format!("{}:{}:{{{}}}:{what}", self.prefix, self.content, scope.tag())
    }

    fn of_room(&self, room: &RoomId, what: &str) -> String {
        format!("{}:{}:{{r/{}}}:{what}", self.prefix, self.content, room.as_str())
    }

    fn of_store(&self, what: &str) -> String {
        self.of(&KeyScope::Store, what)
    }

    fn of_any_content(&self, scope: &KeyScope, what: &str) -> String {
        format!("{}:{{{}}}:{what}", self.prefix, scope.tag())
    }

    pub(super) fn room(&self, room: &RoomId) -> String {
        self.of_room(room, "room")
    }

    pub(super) fn taken_positions(&self, room: &RoomId) -> String {
        self.of_room(room, "taken")
    }

    pub(super) fn node(&self, room: &RoomId, node: NodeId) -> String {
        self.of_room(room, &format!("node:{:x}", node.0))
    }

    pub(super) fn lease(&self, room: &RoomId) -> String {
        self.of_room(room, "lease")
    }

    pub(super) fn sessions(&self, room: &RoomId, generation: Generation) -> String {
        self.of_room(room, &format!("sessions:{}", generation.number()))
    }

    pub(super) fn ending(&self, room: &RoomId, generation: Generation) -> String {
        self.of_room(room, &format!("ending:{}", generation.number()))
    }

    pub(super) fn ended(&self, room: &RoomId, generation: Generation) -> String {
        self.of_room(room, &format!("ended:{}", generation.number()))
    }

    /// Every key that has to do with sessions of one line.
    pub(super) fn line(&self, room: &RoomId, generation: Generation) -> [String; 3] {
        [self.sessions(room, generation), self.ending(room, generation), self.ended(room, generation)]
    }

    /// Answers to repeatable calls, and when they are forgotten.
    pub(super) fn answers(&self, room: &RoomId) -> [String; 2] {
        [self.of_room(room, "answers"), self.of_room(room, "answers:ends")]
    }

    pub(super) fn records(&self, scope: &KeyScope) -> String {
        self.of(scope, "records")
    }

    pub(super) fn trace(&self, room: &RoomId) -> String {
        self.of_room(room, "trace")
    }

    pub(super) fn names(&self) -> String {
        self.of_store("names")
    }

    pub(super) fn shared_trace(&self) -> String {
        self.of_store("shared")
    }

    pub(super) fn values(&self) -> String {
        self.of_store("values")
    }

    pub(super) fn events(&self) -> String {
        self.of_store("events")
    }

    pub(super) fn visitor_events(&self) -> String {
        self.of_store("visitor-events")
    }

    /// The streams of both classes of events.
    pub(super) fn events_of(&self, class: EventClass) -> String {
        match class {
            EventClass::Room => self.events(),
            EventClass::Visitor => self.visitor_events(),
        }
    }

    pub(super) fn work(&self, work: &str) -> String {
        self.of_store(&format!("work:{work}"))
    }

    pub(super) fn audit(&self) -> String {
        self.of_store("audit")
    }

    pub(super) fn collected(&self) -> String {
        self.of_store("collected")
    }

    pub(super) fn numbers(&self) -> String {
        self.of_store("numbers")
    }

    pub(super) fn content_number(&self) -> String {
        self.of_any_content(&KeyScope::Store, "content")
    }

    pub(super) fn restoring(&self) -> String {
        self.of_any_content(&KeyScope::Store, "restoring")
    }

    pub(super) fn mark(&self) -> String {
        self.of_any_content(&KeyScope::Store, "mark")
    }

    pub(super) fn replicas(&self) -> String {
        self.of_any_content(&KeyScope::Store, "replicas")
    }

    pub(super) fn confirmed(&self, scope: &KeyScope) -> String {
        self.of_any_content(scope, "confirmed")
    }

    pub(super) fn notifications(&self, scope: &KeyScope) -> String {
        self.of_any_content(scope, "news")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_one_room_has_its_tag_and_no_room_has_that_of_the_store() {
        let keys = Keys::new("anteroom", 3);
        let store = RoomId::parse("store").expect("a name of a room");
        assert_eq!(keys.room(&store), "anteroom:3:{r/store}:room");
        assert_eq!(keys.notifications(&KeyScope::from(&store)), "anteroom:{r/store}:news");
        assert_eq!(keys.names(), "anteroom:3:{store}:names");
        assert_ne!(KeyScope::from(&store).slot(), KeyScope::Store.slot());
    }
}
