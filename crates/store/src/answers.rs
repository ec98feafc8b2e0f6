//! Answers to repeatable calls, kept for a while by stores that only one process has.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::RoomId;

use crate::clock::Stopwatch;
use crate::contract::{ANSWERS_MAX, AnswerKey};

/// The answers of all rooms.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<RoomId, RoomAnswers>>);

/// Those of one room.
#[derive(Default)]
struct RoomAnswers {
    answers: HashMap<AnswerKey, KeptAnswer>,
    /// Oldest first.
    order: VecDeque<AnswerKey>,
}

struct KeptAnswer {
    answer: Vec<u8>,
    since: Stopwatch,
    kept: Duration,
}

impl KeptAnswer {
    fn is_over(&self) -> bool {
        self.since.elapsed() >= self.kept
    }
}

impl Answers {
    /// See [`crate::Store::keep_answer`].
    pub(crate) fn keep(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Option<Vec<u8>> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_room = rooms.entry(room.clone()).or_default();
        if let Some(before) = of_room.answers.get(&key).filter(|before| !before.is_over()) {
            return Some(before.answer.clone());
        }
        of_room.make_place(&key);
        let answer = KeptAnswer { answer: answer.to_vec(), since: Stopwatch::start(), kept };
        of_room.answers.insert(key, answer);
        of_room.order.push_back(key);
        None
    }

    /// See [`crate::Store::kept_answer`].
    pub(crate) fn find(&self, room: &RoomId, key: &AnswerKey) -> Option<Vec<u8>> {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = rooms.get(room)?.answers.get(key)?;
        (!found.is_over()).then(|| found.answer.clone())
    }
}

impl RoomAnswers {
    /// Forgets what is over, and the oldest if there are too many; what was kept under this key is over too.
    fn make_place(&mut self, key: &AnswerKey) {
        if self.answers.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
        while let Some(oldest) = self.order.front()
            && (self.order.len() >= ANSWERS_MAX || self.answers.get(oldest).is_none_or(KeptAnswer::is_over))
        {
            self.answers.remove(oldest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_keys_buys_no_memory_and_the_oldest_go_first() {
        let (answers, room) = (Answers::default(), RoomId::parse("room").unwrap());
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        for number in 0..ANSWERS_MAX + 10 {
            assert_eq!(answers.keep(&room, key(number), b"answer", Duration::from_mins(10)), None);
        }
        assert_eq!(answers.0.lock().unwrap()[&room].order.len(), ANSWERS_MAX);
        assert_eq!(answers.find(&room, &key(9)), None);
        assert_eq!(answers.find(&room, &key(10)), Some(b"answer".to_vec()));
    }
}
