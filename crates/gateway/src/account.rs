//! The last phase: every request ends in exactly one counted verdict.
//!
//! *Invariant:* an [`Account`] counts when it is dropped, and only then; a request whose client went away before there was a verdict
//! counts as `abandoned`.

pub(crate) mod figures;
pub(crate) mod origin_reports;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Proxied: a visitor inside.
    Session,
    /// A visitor who was let in by this very request: proxied, or at the door redirected to the page.
    Admitted,
    /// Proxied: a rule of the room lets it by.
    Bypassed,
    /// Proxied: the room lets all visitors through.
    PassedThrough,
    /// Proxied: no room is responsible.
    Unprotected,
    /// Proxied although the store is lost, because the room says so.
    LetInByLossMode,
    /// Shown the line: a visitor with a place in it.
    Waiting,
    /// Redirected through the door, or told there that cookies are needed: the cookie has not come back yet.
    Arrived,
    /// Shown the line without a place: the store is lost, and the room holds all visitors.
    Held,
    /// A call about the line itself: joined, left or asked.
    Line,
    /// Told to nginx as 401: it asks for the page next, and that request is counted by what it shows.
    SentToPage,
    /// Refused: too many requests.
    Limited,
    /// Refused: the room takes no joins.
    Closed,
    /// Refused: not a visitor who could wait, and not inside.
    NotInside,
    /// Refused: not a request that can be passed on.
    Malformed,
    /// Refused: no origin for it.
    Misdirected,
    /// Let in, but the origin gave no answer.
    OriginFailed,
    /// The client went away before there was a verdict.
    Abandoned,
}

impl Verdict {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 18] = [
        Self::Session,
        Self::Admitted,
        Self::Bypassed,
        Self::PassedThrough,
        Self::Unprotected,
        Self::LetInByLossMode,
        Self::Waiting,
        Self::Arrived,
        Self::Held,
        Self::Line,
        Self::SentToPage,
        Self::Limited,
        Self::Closed,
        Self::NotInside,
        Self::Malformed,
        Self::Misdirected,
        Self::OriginFailed,
        Self::Abandoned,
    ];

    /// The word for it in metrics and documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Admitted => "admitted",
            Self::Bypassed => "bypassed",
            Self::PassedThrough => "passed_through",
            Self::Unprotected => "unprotected",
            Self::LetInByLossMode => "let_in_by_loss_mode",
            Self::Waiting => "waiting",
            Self::Arrived => "arrived",
            Self::Held => "held",
            Self::Line => "line",
            Self::SentToPage => "sent_to_page",
            Self::Limited => "limited",
            Self::Closed => "closed",
            Self::NotInside => "not_inside",
            Self::Malformed => "malformed",
            Self::Misdirected => "misdirected",
            Self::OriginFailed => "origin_failed",
            Self::Abandoned => "abandoned",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    room: String,
    verdict: &'static str,
}

/// All verdicts so far, by room.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts(Family<VerdictLabels, Counter>);

impl Verdicts {
    /// Those of a room, found beforehand: counting one is a single atomic.
    pub(crate) fn of(&self, room: &str) -> RoomVerdicts {
        RoomVerdicts(Verdict::ALL.map(|verdict| {
            let labels = VerdictLabels { room: room.to_owned(), verdict: verdict.as_str() };
            self.0.get_or_create(&labels).clone()
        }))
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "gateway_requests",
            "Requests to the gateway by room and verdict, each exactly once",
            self.0.clone(),
        );
    }
}

/// The counters of one room.
#[derive(Debug)]
pub(crate) struct RoomVerdicts([Counter; Verdict::ALL.len()]);

impl RoomVerdicts {
    fn count(&self, verdict: Verdict) {
        self.0[verdict as usize].inc();
    }
}

/// One request in flight, until its verdict.
pub(crate) struct Account<'room> {
    verdicts: &'room RoomVerdicts,
    verdict: Verdict,
}

impl<'room> Account<'room> {
    pub(crate) fn open(verdicts: &'room RoomVerdicts) -> Self {
        Self { verdicts, verdict: Verdict::Abandoned }
    }

    /// Says how it ends; the last verdict counts.
    pub(crate) fn settle(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        self.verdicts.count(self.verdict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_stands_at_its_own_place() {
        for (place, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!(verdict as usize, place);
        }
    }

    #[test]
    fn a_request_counts_once_whatever_becomes_of_it() {
        let verdicts = Verdicts::default();
        let room = verdicts.of("Hall");
        drop(Account::open(&room));
        let mut account = Account::open(&room);
        account.settle(Verdict::Waiting);
        account.settle(Verdict::Held);
        drop(account);
        let counted: Vec<u64> = Verdict::ALL.iter().map(|&verdict| room.0[verdict as usize].get()).collect();
        assert_eq!(counted.iter().sum::<u64>(), 2);
        assert_eq!(room.0[Verdict::Abandoned as usize].get(), 1);
        assert_eq!(room.0[Verdict::Held as usize].get(), 1);
    }
}
