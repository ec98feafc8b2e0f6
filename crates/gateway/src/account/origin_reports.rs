//! What the gateway measures of the origins, reported to the rooms that follow it: those with an adaptive inlet.
//!
//! The gateway is a reporter of its own beside those of the origin. It knows how long answers take and how many of them fail; how
//! many more visitors the origin could take, it does not know, and so it says nothing about that (`free` of a report): where the
//! origin reports free slots, that counts on, and where it does not, nothing is taken for full.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{InletKind, Operation, Report};
use anteroom_engine::{Actor, RoomHandle};
use anteroom_store::clock::Stopwatch;

use anteroom_proxy::{Observations, Origins};

/// How often the gateway checks whether a report is due.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(250);
/// Failures are judged by at least so many requests: one that fails out of three is no trend.
const ERRORS_JUDGED_FROM_REQUESTS: u64 = 20;
const MILLION: u64 = 1_000_000;

/// A group of origins that requests are sent to.
pub(crate) trait OriginGroup: Send + Sync {
    /// What was seen of it since this was last asked.
    fn take_observations(&self) -> Observations;
}

impl OriginGroup for Origins {
    fn take_observations(&self) -> Observations {
        Self::take_observations(self)
    }
}

/// A group of origins, and the rooms that stand before it.
pub(crate) struct Site<Group> {
    pub(crate) origins: Arc<Group>,
    /// Those with any inlet.
    pub(crate) rooms: Vec<Arc<RoomHandle>>,
}

/// Reports to adaptive rooms how their origins do, as `reporter`, until it is dropped. `sites` is asked again and again, because rooms and
/// origins come and go.
pub(crate) async fn report<Group: OriginGroup>(reporter: &str, sites: impl Fn() -> Vec<Site<Group>>) {
    let mut watches: Vec<SiteWatch<Group>> = vec![];
    let mut clock = tokio::time::interval(MAINTENANCE_PERIOD);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let sites = sites();
        watches.retain(|watch| sites.iter().any(|site| watch.is_of(site)));
        for site in &sites {
            let index = watches.iter().position(|watch| watch.is_of(site)).unwrap_or_else(|| {
                watches.push(SiteWatch::of(site));
                watches.len() - 1
            });
            let Some(report) = watches[index].due_report(reporter, site) else { continue };
            for room in site.rooms.iter().filter(|room| follows_its_origin(room)) {
                let result = room.operate(Operation::Report(report.clone()), Actor::System("gateway")).await;
                if let Err(error) = result {
                    tracing::debug!(room = %room.id(), %error, "reporting origin latency to the room failed");
                }
            }
        }
    }
}

fn follows_its_origin(room: &RoomHandle) -> bool {
    room.with_board(|board| board.settings.inlet == InletKind::Adaptive)
}

/// What is remembered of a site between two reports.
struct SiteWatch<Group> {
    origins: Arc<Group>,
    since_last: Stopwatch,
    few: FewRequests,
}

impl<Group: OriginGroup> SiteWatch<Group> {
    fn of(site: &Site<Group>) -> Self {
        Self {
            origins: Arc::clone(&site.origins),
            since_last: Stopwatch::start(),
            few: FewRequests::default(),
        }
    }

    fn is_of(&self, site: &Site<Group>) -> bool {
        Arc::ptr_eq(&self.origins, &site.origins)
    }

    /// The report that is due: twice in a round of the room whose rounds are the shortest, so that each adjustment has a
    /// report. None where no room follows, or nothing happened: an idle room is not written to.
    fn due_report(&mut self, reporter: &str, site: &Site<Group>) -> Option<Report> {
        let listening = site.rooms.iter().filter(|room| follows_its_origin(room));
        let round = listening.map(|room| room.with_board(|board| board.settings.round_millis())).min();
        let Some(round) = round else {
            // What was measured while no room followed is not reported to one that begins to.
            self.origins.take_observations();
            *self = Self::of(site);
            return None;
        };
        if self.since_last.elapsed() < Duration::from_millis(round / 2) {
            return None;
        }
        self.since_last = Stopwatch::start();
        report_of(reporter, &self.origins.take_observations(), &mut self.few)
    }
}

/// Requests that are too few to say how many fail.
#[derive(Debug, Default, PartialEq, Eq)]
struct FewRequests {
    requests: u64,
    errors: u64,
}

/// The report about what was seen, if anything was.
fn report_of(reporter: &str, observations: &Observations, few: &mut FewRequests) -> Option<Report> {
    if observations.requests == 0 {
        return None;
    }
    few.requests += observations.requests;
    few.errors += observations.errors;
    let errors_per_million = (few.requests >= ERRORS_JUDGED_FROM_REQUESTS).then(|| {
        let FewRequests { requests, errors } = std::mem::take(few);
        let share = u128::from(errors.min(requests)) * u128::from(MILLION) / u128::from(requests);
        u32::try_from(share).unwrap_or(u32::MAX)
    });
    let latency =
        observations.latency_p95.map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX));
    Some(Report {
        reporter: reporter.to_owned(),
        // One task sends the reports one after the other, so none overtakes another.
        sequence: None,
        free: None,
        entered: None,
        latency_p95_millis: latency,
        errors_per_million,
        in_flight: u64::try_from(observations.in_flight).ok(),
    })
}

#[cfg(test)]
mod tests {
    use anteroom_core::settings::ShortSeconds;
    use anteroom_core::{RoomId, RoomState, Settings};
    use anteroom_engine::Engine;
    use anteroom_store::{MemoryStore, NodeId, SystemClock};
    use anteroom_testkit::wait_until;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn observations(requests: u64, errors: u64, latency_millis: u64) -> Observations {
        let latency_p95 = Some(Duration::from_millis(latency_millis));
        Observations { requests, errors, latency_p95, in_flight: 3 }
    }

    #[test]
    fn a_report_says_what_was_observed_and_nothing_about_free_slots() {
        let mut few = FewRequests::default();
        let report = report_of("gateway", &observations(200, 3, 120), &mut few).unwrap();
        let expected = Report {
            reporter: "gateway".into(),
            latency_p95_millis: Some(120),
            errors_per_million: Some(15_000),
            in_flight: Some(3),
            ..Report::default()
        };
        assert_eq!((report.free, report), (None, expected));
        assert_eq!(report_of("gateway", &observations(0, 0, 120), &mut few), None, "nothing was seen");
        let nothing_answered = Observations { latency_p95: None, ..observations(40, 40, 0) };
        let report = report_of("gateway", &nothing_answered, &mut few).unwrap();
        assert_eq!((report.latency_p95_millis, report.errors_per_million), (None, Some(1_000_000)));
    }

    #[test]
    fn few_requests_are_judged_together_with_those_that_follow() {
        let mut few = FewRequests::default();
        let report = |observations: Observations, few: &mut FewRequests| {
            report_of("gateway", &observations, few).unwrap()
        };
        assert_eq!(report(observations(3, 1, 50), &mut few).errors_per_million, None);
        assert_eq!(report(observations(16, 0, 50), &mut few).errors_per_million, None);
        assert_eq!(report(observations(1, 0, 50), &mut few).errors_per_million, Some(50_000));
        assert_eq!(few, FewRequests::default(), "each of them once");
    }

    /// Every other request fails.
    struct Failing;

    impl OriginGroup for Failing {
        fn take_observations(&self) -> Observations {
            observations(100, 50, 30)
        }
    }

    async fn room(engine: &Arc<Engine>, name: &str, inlet: InletKind) -> Arc<RoomHandle> {
        let settings = Settings {
            inlet,
            total_active_users: Some(100),
            round_seconds: ShortSeconds::new(1).unwrap(),
            ..Settings::default()
        };
        let id = RoomId::parse(name).unwrap();
        let actor = Actor::System("test");
        engine.create_room(id, settings, RoomState::Open, 1, actor).await.unwrap().0
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_rooms_that_follow_their_origin_get_reports_and_none_about_free_slots() {
        let engine =
            Engine::start(Arc::new(MemoryStore::default()), Arc::new(SystemClock), NodeId(1)).await.unwrap();
        let follows = room(&engine, "follows", InletKind::Adaptive).await;
        let does_not = room(&engine, "does-not", InletKind::MaxSize).await;
        let (origins, rooms) = (Arc::new(Failing), vec![Arc::clone(&follows), Arc::clone(&does_not)]);
        let sites = move || vec![Site { origins: Arc::clone(&origins), rooms: rooms.clone() }];
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move { report("gateway", sites).await });
        wait_until("the room has the report, and the control law has adjusted", DEADLINE, || {
            follows.board().adaptive.is_some_and(|adaptive| adaptive.adjustment.as_str() == "draining")
        });
        let board = follows.board();
        let last = &board.reports.reporters[0].last;
        assert_eq!((last.reporter.as_str(), last.errors_per_million), ("gateway", Some(500_000)));
        assert_eq!(board.reports.free(&board.settings, board.clock), None, "no report says what is free");
        assert_eq!(does_not.board().reports.reporters, []);
        task.shutdown().await;
        engine.stop().await;
    }
}
