//! What is asked of a server: plain commands and scripts, each for the keys of one scope.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Script, ToRedisArgs};

use super::keys::KeyScope;

macro_rules! scripts {
    ($($name:ident = $file:literal,)+) => {
        $( pub(super) static $name: LazyLock<Source> = LazyLock::new(|| {
            Source::new(concat!(include_str!("scripts/common.lua"), "\n", include_str!($file)))
        }); )+
    };
}

scripts! {
    COMMIT = "scripts/commit.lua",
    JOIN = "scripts/join.lua",
    LOAD = "scripts/load.lua",
    DELETE = "scripts/delete.lua",
    POLL = "scripts/poll.lua",
    STORE = "scripts/store.lua",
    NOTE_NAME = "scripts/note_name.lua",
    REPLACE_VALUE = "scripts/replace_value.lua",
    RECORDS = "scripts/records.lua",
    COLLECT = "scripts/collect.lua",
    THAW = "scripts/thaw.lua",
    FREEZE = "scripts/freeze.lua",
    RESTORING = "scripts/restoring.lua",
    PUT = "scripts/put.lua",
    PUT_ROOM = "scripts/put_room.lua",
    KEEP_ANSWER = "scripts/keep_answer.lua",
    PUT_RECORD = "scripts/put_record.lua",
    SHARE_TRACE = "scripts/share_trace.lua",
    DROP_TRACE = "scripts/drop_trace.lua",
    DROP_NAME = "scripts/drop_name.lua",
    DROP_EVENTS = "scripts/drop_events.lua",
    APPEND_EVENTS = "scripts/append_events.lua",
    HOLD_WORK = "scripts/hold_work.lua",
    SAVE_CURSOR = "scripts/save_cursor.lua",
}

/// A decision about one request, ten thousand times a second: without what the other scripts share, which would be set up each time.
pub(super) static TAKE: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("scripts/take.lua")));

/// A script, and the name under which servers remember it.
pub(super) struct Source {
    text: String,
    digest: String,
}

impl Source {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), digest: Script::new(text).get_hash().to_owned() }
    }
}

/// What it means when no answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Nothing, it has changed nothing; or it may be asked again without harm.
    Read,
    /// It may have happened.
    Write,
}

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandTimeout {
    /// The timeout of commands that a caller waits for.
    Short,
    /// Much at a time: backups, restores, many pending records.
    Long,
}

impl CommandTimeout {
    pub(super) const fn limit(self) -> Duration {
        match self {
            Self::Short => Duration::from_secs(2),
            Self::Long => Duration::from_secs(10),
        }
    }
}

/// One command or script.
#[derive(Clone)]
pub(super) struct Command {
    pub(super) slot: u16,
    body: Body,
}

#[derive(Clone)]
enum Body {
    Plain(Cmd),
    Script { source: &'static LazyLock<Source>, keys: Vec<Vec<u8>>, arguments: Vec<Vec<u8>> },
}

impl Command {
    /// A plain command.
    pub(super) fn plain(scope: &KeyScope, name: &str) -> Self {
        Self { slot: scope.slot(), body: Body::Plain(redis::cmd(name)) }
    }

    /// A plain command that every server understands, for the one that has this slot.
    pub(super) fn at_slot(slot: u16, name: &str) -> Self {
        Self { slot, body: Body::Plain(redis::cmd(name)) }
    }

    /// A script; all its keys are of this scope.
    pub(super) fn script(scope: &KeyScope, source: &'static LazyLock<Source>) -> Self {
        Self { slot: scope.slot(), body: Body::Script { source, keys: vec![], arguments: vec![] } }
    }

    /// A script whose one key is at this slot.
    pub(super) fn script_at_slot(slot: u16, source: &'static LazyLock<Source>) -> Self {
        Self { slot, body: Body::Script { source, keys: vec![], arguments: vec![] } }
    }

    /// A key of a script.
    pub(super) fn key(mut self, key: impl ToRedisArgs) -> Self {
        if let Body::Script { keys, .. } = &mut self.body {
            key.write_redis_args(keys);
        }
        self
    }

    /// An argument.
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.push(argument);
        self
    }

    /// An argument, where a chain does not read well.
    pub(super) fn push(&mut self, argument: impl ToRedisArgs) {
        match &mut self.body {
            Body::Plain(command) => {
                command.arg(argument);
            }
            Body::Script { arguments, .. } => argument.write_redis_args(arguments),
        }
    }

    /// Puts it into a pipeline; a script by its digest, or with its whole text for a server that does not know it.
    pub(super) fn put_into(&self, pipeline: &mut Pipeline, with_text: bool) {
        pipeline.add_command(self.to_cmd(with_text));
    }

    /// As it is sent.
    pub(super) fn to_cmd(&self, with_text: bool) -> Cmd {
        match &self.body {
            Body::Plain(command) => command.clone(),
            Body::Script { source, keys, arguments } => {
                let mut command = if with_text {
                    let mut command = redis::cmd("EVAL");
                    command.arg(&source.text);
                    command
                } else {
                    let mut command = redis::cmd("EVALSHA");
                    command.arg(&source.digest);
                    command
                };
                command.arg(keys.len()).arg(keys).arg(arguments);
                command
            }
        }
    }
}
