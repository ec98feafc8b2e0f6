//! The streams of one feed within a hub, and how far its frame has come among them.
//!
//! A round goes through the streams from the last to the first. A frame that comes in the middle of one goes to the rest of this
//! round at once, and a second round brings it to those who got the one before: everybody's turn comes, however fast frames follow.

use std::sync::Arc;

use crate::api::watch::counts::PushClock;
use crate::api::watch::feed::Frame;

/// The streams of one feed.
pub(super) struct Group {
    /// Keys of the streams. Those before `rest` have not had their turn in this round.
    streams: Vec<usize>,
    rest: usize,
    /// The newest frame.
    frame: Arc<Frame>,
    /// Held until this round is over.
    clocks: Vec<Arc<PushClock>>,
    /// Held until the next round is over; there is one if this is not empty.
    next_clocks: Vec<Arc<PushClock>>,
}

impl Group {
    pub(super) fn new(frame: Arc<Frame>) -> Self {
        Self { streams: Vec::new(), rest: 0, frame, clocks: Vec::new(), next_clocks: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Takes a stream in that has the present frame; returns its place.
    pub(super) fn add(&mut self, key: usize) -> u32 {
        let place = u32::try_from(self.streams.len()).expect("there are fewer sockets than that");
        self.streams.push(key);
        place
    }

    /// Lets the stream at a place go; returns the one that has the place now, if any.
    pub(super) fn remove(&mut self, place: u32) -> Option<usize> {
        // The one that moves up comes from the end and has had its turn, or is looked at a second time for nothing.
        let place = place as usize;
        self.streams.swap_remove(place);
        self.rest = self.rest.min(self.streams.len());
        self.streams.get(place).copied()
    }

    /// A new frame for everybody. Returns whether a round begins with it; if not, one is under way.
    pub(super) fn begin(&mut self, frame: Arc<Frame>, clock: Arc<PushClock>) -> bool {
        self.frame = frame;
        if !self.clocks.is_empty() {
            self.next_clocks.push(clock);
            return false;
        }
        self.clocks.push(clock);
        self.rest = self.streams.len();
        true
    }

    /// Whose turn it is, and what to send; `None` at the end of the last round.
    pub(super) fn next(&mut self) -> Option<(usize, Arc<Frame>)> {
        if self.rest == 0 {
            self.clocks = std::mem::take(&mut self.next_clocks);
            if self.clocks.is_empty() {
                return None;
            }
            self.rest = self.streams.len();
        }
        self.rest = self.rest.checked_sub(1)?;
        Some((self.streams[self.rest], Arc::clone(&self.frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::watch::counts::Counts;

    fn frame(sequence: u64) -> Arc<Frame> {
        Arc::new(Frame { sequence, ..Frame::default() })
    }

    fn clock() -> Arc<PushClock> {
        PushClock::start(&Arc::new(Counts::new()))
    }

    fn group(streams: usize) -> Group {
        let mut group = Group::new(frame(1));
        for key in 0..streams {
            assert_eq!(group.add(key) as usize, key);
        }
        group
    }

    fn rest_of_round(group: &mut Group) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| group.next().map(|(key, frame)| (key, frame.sequence))).collect()
    }

    #[test]
    fn a_round_reaches_everybody_once() {
        let mut group = group(4);
        assert!(group.next().is_none(), "nothing was pushed");
        assert!(group.begin(frame(2), clock()));
        assert_eq!(rest_of_round(&mut group), [(3, 2), (2, 2), (1, 2), (0, 2)]);
        assert!(group.next().is_none());
        assert!(group.begin(frame(3), clock()), "the next frame begins a round of its own");
    }

    #[test]
    fn a_frame_in_the_middle_of_a_round_reaches_the_rest_at_once_and_everybody_in_the_end() {
        let mut group = group(3);
        group.begin(frame(2), clock());
        assert_eq!(group.next().map(|(key, frame)| (key, frame.sequence)), Some((2, 2)));
        assert!(!group.begin(frame(3), clock()), "the round that is under way takes it along");
        assert!(!group.begin(frame(4), clock()));
        assert_eq!(rest_of_round(&mut group), [(1, 4), (0, 4), (2, 4), (1, 4), (0, 4)]);
    }

    #[test]
    fn who_leaves_in_the_middle_of_a_round_takes_nobody_elses_turn() {
        for leaving in 0..6 {
            let mut group = group(6);
            group.begin(frame(2), clock());
            let mut told: Vec<usize> = (0..2).filter_map(|_| group.next()).map(|(key, _)| key).collect();
            // The stream's place is its key as long as nobody left before.
            let moved = group.remove(leaving);
            assert_eq!(moved, (leaving < 5).then_some(5));
            told.extend(rest_of_round(&mut group).into_iter().map(|(key, _)| key));
            told.sort_unstable();
            told.dedup();
            let stayed = (0..6).filter(|key| *key != leaving as usize || told.contains(key));
            assert_eq!(told, stayed.collect::<Vec<_>>(), "{leaving} left");
        }
    }

    #[test]
    fn who_comes_in_the_middle_of_a_round_is_not_told_what_it_was_greeted_with() {
        let mut group = group(2);
        group.begin(frame(2), clock());
        group.add(9);
        assert_eq!(rest_of_round(&mut group), [(1, 2), (0, 2)]);
    }

    #[test]
    fn a_round_ends_when_everybody_has_left() {
        let mut group = group(1);
        group.begin(frame(2), clock());
        group.begin(frame(3), clock());
        assert_eq!(group.remove(0), None);
        assert!(group.is_empty() && group.next().is_none());
    }
}
