//! A room with something to lose, for tests whose calls must change nothing.

use anteroom_testkit::{Answer, Figures, Line, Server};

use crate::support::BINARY;

/// A server with a room `Busy`: the first visitor is admitted, the second served, the third waits.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) line: Line,
    pub(crate) ids: Vec<String>,
    before: (Figures, Vec<String>),
}

impl Scene {
    /// The server, with further lines of configuration before the room.
    pub(crate) fn start(settings: &str) -> Self {
        let config = format!("{settings}\n[[room]]\nid = \"Busy\"\n");
        let server = Server::builder(BINARY).config(config).memory().start().expect("the server starts");
        let mut line = server.line("Busy");
        let ids = line.join_many(3);
        line.advance(2);
        assert_eq!(line.claim(&ids[0]).status, 200);
        let before = everything(&mut line, &ids);
        Self { server, line, ids, before }
    }

    /// The id of the visitor who is served but has not claimed: the one whom a bad call could change.
    pub(crate) fn served(&self) -> &str {
        &self.ids[1]
    }

    /// Ends the test: the server still answers and nothing has changed.
    pub(crate) fn assert_nothing_changed(mut self) {
        assert_eq!(everything(&mut self.line, &self.ids), self.before);
        let joined = self.line.join();
        assert_eq!(self.line.position(&joined), 4, "the next number is the next number");
        assert_eq!(self.line.claim(&self.ids[1]).status, 200);
        assert_eq!(self.line.claim(&self.ids[2]).status, 202);
        assert_eq!(
            self.line.close(&self.ids[0], 1).status,
            200,
            "the session has not been ended by a bad call"
        );
        assert!(!self.server.stderr().contains("panicked"), "{}", self.server.stderr());
    }
}

/// All that a room tells about itself and about these visitors.
fn everything(line: &mut Line, ids: &[String]) -> (Figures, Vec<String>) {
    let places = ids.iter().map(|id| line.place(id).text()).collect();
    (line.figures(), places)
}

/// A clear refusal: one of these statuses, a JSON sentence, readable from any web page.
#[track_caller]
pub(crate) fn assert_refused(answer: &Answer, allowed: &[u16], what: &str) {
    assert!(allowed.contains(&answer.status), "{what}: expected {allowed:?}, got {answer:?}");
    assert!(!answer.error().is_empty(), "{what}: {answer:?}");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"), "{what}: {answer:?}");
}
