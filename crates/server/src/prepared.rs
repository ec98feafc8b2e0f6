//! The hottest answers as bytes, made once per board and sent to everybody.

use std::sync::Arc;

use anteroom_core::Board;
use bytes::Bytes;
use http::HeaderValue;

/// An answer that only depends on the board.
#[derive(Debug, Clone)]
pub(crate) struct PreparedAnswer {
    pub(crate) body: Bytes,
    pub(crate) etag: HeaderValue,
}

impl PreparedAnswer {
    fn new(field: &str, value: u64) -> Self {
        // The tag is the content itself, so that it survives restarts and is the same on every node.
        let etag = HeaderValue::try_from(format!("\"{value}\"")).unwrap_or(HeaderValue::from_static("\"-\""));
        Self { body: Bytes::from(format!("{{\"{field}\":{value}}}")), etag }
    }
}

/// All prepared answers of one board.
#[derive(Debug)]
pub(crate) struct Prepared {
    board: Arc<Board>,
    pub(crate) serving_num: PreparedAnswer,
    pub(crate) waiting_num: PreparedAnswer,
}

impl Prepared {
    pub(crate) fn of(board: &Arc<Board>) -> Self {
        Self {
            board: Arc::clone(board),
            serving_num: PreparedAnswer::new("serving_counter", board.serving),
            waiting_num: PreparedAnswer::new("waiting_num", board.waiting),
        }
    }

    pub(crate) fn is_of(&self, board: &Arc<Board>) -> bool {
        Arc::ptr_eq(&self.board, board)
    }
}
