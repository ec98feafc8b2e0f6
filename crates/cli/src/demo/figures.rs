//! What the server says about the room before the shop, once a second: its own figures, from the private API. Rate and wait are
//! made of them, not guessed: how many sessions have begun, and when the line had got as long as the frontier is now.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use hyper::Method;
use serde::Deserialize;
use tokio::time::MissedTickBehavior;

use crate::http_client::HttpClient;

use super::ROOM;

/// How often they are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// How many samples are kept: the longest wait that can be told, in seconds.
const SAMPLES_MAX: usize = 3_600;
/// Over how long the rate is taken.
const RATE_SPAN: Duration = Duration::from_mins(1);
/// Below this a rate says nothing.
const RATE_SPAN_MIN: Duration = Duration::from_secs(5);
/// How many waits the median is taken of.
const WAITS_MAX: usize = 15;

/// How things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figures {
    /// Visitors inside.
    pub(super) inside: u64,
    /// How many fit; nothing if the operator has taken the limit away.
    pub(super) places: Option<u64>,
    /// The most that fitted so far: an operator may change it, and nobody inside is thrown out.
    pub(super) most_places: Option<u64>,
    /// Those whose turn has come and who have not come in yet: their places are kept.
    pub(super) coming: u64,
    /// Everybody behind them.
    pub(super) in_line: u64,
    /// Visits begun.
    pub(super) let_in: u64,
    /// Visits completed: the visitor bought something.
    pub(super) bought: u64,
    /// Visits begun within a minute; nothing while that is not known.
    pub(super) let_in_a_minute: Option<u64>,
    /// How long those waited who were served last (the median of the last moments); nothing while nobody was.
    pub(super) waited_seconds: Option<u64>,
    /// Since when the demo runs.
    pub(super) elapsed: Duration,
}

/// What is read of the server's answer.
#[derive(Debug, Clone, Copy, Deserialize)]
struct RoomFigures {
    serving: u64,
    joined: u64,
    waiting: u64,
    active: u64,
    offers: u64,
    claimed: u64,
    completed: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct RoomSettings {
    total_active_users: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct RoomAnswer {
    figures: RoomFigures,
    settings: RoomSettings,
}

/// Looks once a second, for ever; what was seen last stays in `last`.
pub(super) async fn follow(
    private: &HttpClient,
    last: &mut Option<Figures>,
    mut tell: impl FnMut(&Figures),
) -> Infallible {
    let clock = Stopwatch::start();
    let mut history = History::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // A look that fails is left out; the next one comes in a second.
        let Some(seen) = fetch_room(private).await else { continue };
        let figures = history.add(clock.elapsed(), seen);
        tell(&figures);
        *last = Some(figures);
    }
}

async fn fetch_room(private: &HttpClient) -> Option<RoomAnswer> {
    let path = format!("/rooms/{ROOM}");
    let reply = private.request(Method::GET, &path, hyper::HeaderMap::new(), None).await.ok()?;
    serde_json::from_slice(&reply.body).ok()
}

/// One look at the room.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    joined: u64,
    serving: u64,
    claimed: u64,
}

/// What was seen so far, oldest first.
#[derive(Debug, Default)]
struct History {
    samples: VecDeque<Sample>,
    waits: VecDeque<u64>,
    most_places: Option<u64>,
}

impl History {
    fn add(&mut self, at: Duration, answer: RoomAnswer) -> Figures {
        let RoomAnswer { figures: seen, settings: RoomSettings { total_active_users: places } } = answer;
        let sample = Sample { at, joined: seen.joined, serving: seen.serving, claimed: seen.claimed };
        let has_moved = self.samples.back().is_none_or(|previous| sample.serving > previous.serving);
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        if has_moved && sample.serving > 0 {
            self.waits.extend(self.wait_of(sample.serving, at));
            if self.waits.len() > WAITS_MAX {
                self.waits.pop_front();
            }
        }
        self.most_places = self.most_places.max(places);
        Figures {
            inside: seen.active,
            places,
            most_places: self.most_places,
            coming: seen.offers,
            in_line: seen.waiting.saturating_sub(seen.offers),
            let_in: seen.claimed,
            bought: seen.completed,
            let_in_a_minute: self.let_in_a_minute(&sample),
            waited_seconds: median(&self.waits),
            elapsed: at,
        }
    }

    /// How long the holder of a position has waited who is served now: since the line first was that long.
    fn wait_of(&self, position: u64, now: Duration) -> Option<u64> {
        let first = self.samples.partition_point(|sample| sample.joined < position);
        let joined_at = self.samples.get(first)?.at;
        Some(now.saturating_sub(joined_at).as_secs())
    }

    fn let_in_a_minute(&self, newest: &Sample) -> Option<u64> {
        let from = newest.at.saturating_sub(RATE_SPAN);
        let oldest = self.samples.get(self.samples.partition_point(|sample| sample.at < from))?;
        let span = newest.at.checked_sub(oldest.at).filter(|span| *span >= RATE_SPAN_MIN)?;
        let let_in = u128::from(newest.claimed.saturating_sub(oldest.claimed));
        u64::try_from(let_in * RATE_SPAN.as_millis() / span.as_millis()).ok()
    }
}

fn median(waits: &VecDeque<u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = waits.iter().copied().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room_answer(joined: u64, serving: u64) -> RoomAnswer {
        let claimed = serving;
        let figures = RoomFigures {
            serving,
            joined,
            waiting: joined - serving,
            active: 3,
            offers: 2,
            claimed,
            completed: 1,
        };
        RoomAnswer { figures, settings: RoomSettings { total_active_users: Some(5) } }
    }

    #[test]
    fn the_wait_is_since_the_line_was_that_long_and_the_rate_is_of_the_last_minute() {
        let mut history = History::default();
        let at = |second: u64| Duration::from_secs(second);
        let first = history.add(at(0), room_answer(0, 0));
        assert_eq!((first.waited_seconds, first.let_in_a_minute), (None, None), "nobody has come");
        // A hundred people at once, then two of them a second are served.
        let mut last = history.add(at(1), room_answer(100, 0));
        for second in 2..=40 {
            last = history.add(at(second), room_answer(100, (second - 1) * 2));
        }
        assert_eq!(last.waited_seconds, Some(32), "the median of the last fifteen: 25 to 39 seconds");
        assert_eq!(last.let_in_a_minute, Some(117), "78 in 40 seconds");
        assert_eq!((last.inside, last.coming, last.in_line, last.let_in, last.bought), (3, 2, 20, 78, 1));
        // Standing still makes no new wait, and what is older than a minute does not count for the rate.
        for second in 41..=110 {
            last = history.add(at(second), room_answer(100, 78));
        }
        assert_eq!((last.waited_seconds, last.let_in_a_minute), (Some(32), Some(0)));
    }

    #[test]
    fn places_are_those_of_now_and_the_most_there_were_is_remembered() {
        let mut history = History::default();
        let mut places = |second, total_active_users| {
            let settings = RoomSettings { total_active_users };
            let figures =
                history.add(Duration::from_secs(second), RoomAnswer { settings, ..room_answer(9, 9) });
            (figures.places, figures.most_places)
        };
        assert_eq!(places(1, Some(18)), (Some(18), Some(18)));
        assert_eq!(places(2, Some(30)), (Some(30), Some(30)));
        assert_eq!(places(3, Some(10)), (Some(10), Some(30)));
        assert_eq!(places(4, None), (None, Some(30)));
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let mut history = History::default();
        for second in 0..5_000 {
            history.add(Duration::from_secs(second), room_answer(second + 10, second));
        }
        assert_eq!((history.samples.len(), history.waits.len()), (SAMPLES_MAX, WAITS_MAX));
    }
}
