//! The simulated visitors: real clients of the gateway, each with cookies of its own. A visitor comes, stands in line, polls when told to, goes in at
//! the turn, looks around, buys or goes away, and comes back a little later as a new visitor. So the line keeps its length.
//!
//! They are light: a task each, which mostly sleeps, and a few connections that all of them share.

mod jar;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anteroom_tokens::random;
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::http_client::{HttpClient, Reply};
use crate::load::random::Random;

use super::shop::{self, SERVED_BY};
use super::{ROOM, client};

use jar::CookieJar;

/// How long a newcomer is to wait, in seconds.
const WAIT_SECONDS: u64 = 45;
/// How long a visit takes on average, and the shortest one, in seconds.
const VISIT_SECONDS: u64 = 8;
const VISIT_MIN_SECONDS: u64 = 5;
/// How long a visitor takes on average to notice the turn, in seconds: visitors poll every two seconds or so.
const NOTICE_SECONDS: u64 = 1;
/// How long a visitor stays away on average before coming back as a new one, and the shortest time, in seconds.
const AWAY_SECONDS: u64 = 3;
const AWAY_MIN_SECONDS: u64 = 1;
/// How fast the first ones arrive: all within this time, but not more than so many a second.
const ARRIVAL_SPAN: Duration = Duration::from_secs(4);
const ARRIVALS_PER_SECOND_MAX: u64 = 400;
/// How many questions are in flight at once, and how many connections they need.
const CONNECTIONS: usize = 24;
/// All of them together ask where they stand about this often at most, a second; visitors near the front poll as often as told.
const QUESTIONS_PER_SECOND: u64 = 1_000;
/// The share of visitors who buy; the others go away without.
const BUYERS: f64 = 0.85;
/// How many pages a visitor reads before deciding.
const PAGES_MAX: u64 = 3;
/// How long to wait before trying again after an answer that nobody expected.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);
/// How many redirects are followed.
const REDIRECTS_MAX: usize = 4;
/// How often a visitor tries in vain before going away.
const FAILURES_MAX: u32 = 5;

const PAGE_ACCEPT: HeaderValue = HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8");
const NAME: HeaderValue = HeaderValue::from_static("Mozilla/5.0 (a simulated visitor of the Anteroom demo)");
/// What a browser says when a person opens a page.
const NAVIGATION: [(HeaderName, HeaderValue); 3] = [
    (HeaderName::from_static("sec-fetch-site"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("sec-fetch-mode"), HeaderValue::from_static("navigate")),
    (HeaderName::from_static("sec-fetch-dest"), HeaderValue::from_static("document")),
];

/// How many places the shop needs so that a newcomer waits about [`WAIT_SECONDS`].
///
/// A place serves one visitor in 8 + 1 seconds: a visit, and the moment until the next one has noticed the turn. Everybody's round
/// takes 45 seconds in line, 9 with a place, 3 away: 57. So of 57 visitors 9 have a place: N x 9 / 57, one for 6.3 of them.
pub(super) const fn capacity_for(visitors: u64) -> u64 {
    let with_a_place = VISIT_SECONDS + NOTICE_SECONDS;
    visitors * with_a_place / (WAIT_SECONDS + with_a_place + AWAY_SECONDS)
}

/// How long a newcomer waits where so many visitors share so many places: a round is as long as the places take for everybody,
/// and what is left of it beside the visit and the time away is spent in line. Zero where places stay free.
pub(super) const fn wait_seconds(visitors: u64, capacity: u64) -> u64 {
    let with_a_place = VISIT_SECONDS + NOTICE_SECONDS;
    (visitors * with_a_place / capacity).saturating_sub(with_a_place + AWAY_SECONDS)
}

/// Everybody who wants to get in.
pub(super) struct Crowd {
    visitors: u64,
    shared: Arc<Shared>,
}

/// What visitors have in common.
struct Shared {
    client: HttpClient,
    connections: Semaphore,
    /// The shortest time between two questions of a visitor far from the front.
    question_pause: Duration,
    seed: u64,
}

impl Crowd {
    pub(super) fn new(visitors: u64, public: &str) -> anyhow::Result<Self> {
        let shared = Shared {
            client: client(public, None, CONNECTIONS)?,
            connections: Semaphore::new(CONNECTIONS),
            question_pause: Duration::from_millis(visitors * 1_000 / QUESTIONS_PER_SECOND),
            seed: u64::from_le_bytes(random::bytes()),
        };
        Ok(Self { visitors, shared: Arc::new(shared) })
    }

    /// Everybody comes, and comes again, for ever; those under way end with this future.
    pub(super) async fn run(self) -> Infallible {
        let mut tasks = JoinSet::new();
        let per_second = (self.visitors * 1_000 / u64::try_from(ARRIVAL_SPAN.as_millis()).unwrap_or(1))
            .clamp(1, ARRIVALS_PER_SECOND_MAX);
        for index in 0..self.visitors {
            let arrives_in = Duration::from_millis(index * 1_000 / per_second);
            tasks.spawn(visit_repeatedly(Arc::clone(&self.shared), index, arrives_in));
        }
        // No task ends by itself.
        while tasks.join_next().await.is_some() {}
        std::future::pending().await
    }
}

async fn visit_repeatedly(shared: Arc<Shared>, index: u64, arrives_in: Duration) {
    let mut random = Random::of_visitor(shared.seed, index);
    tokio::time::sleep(arrives_in).await;
    loop {
        let visitor = Visitor { shared: &shared, random: &mut random, cookies: CookieJar::default() };
        // A visitor whose requests failed goes away as others do.
        let _ = visitor.visit().await;
        tokio::time::sleep(spread(&mut random, AWAY_MIN_SECONDS, AWAY_SECONDS)).await;
    }
}

/// A time between `least` and as far beyond `mean` as that is beyond `least`.
#[expect(clippy::cast_precision_loss, reason = "a few seconds")]
fn spread(random: &mut Random, least_seconds: u64, mean_seconds: u64) -> Duration {
    let least = least_seconds as f64;
    Duration::from_secs_f64(least + 2.0 * (mean_seconds as f64 - least) * random.fraction())
}

/// Something that a visitor did not expect.
#[derive(Debug)]
struct VisitFailed;

/// Where a visitor stands, as `/.anteroom/line` says it.
#[derive(Debug, Deserialize)]
struct Standing {
    status: String,
    next_poll_seconds: Option<u64>,
    estimated_wait_seconds: Option<u64>,
}

/// A new visitor.
struct Visitor<'crowd> {
    shared: &'crowd Shared,
    random: &'crowd mut Random,
    cookies: CookieJar,
}

impl Visitor<'_> {
    /// From the first page to the last.
    async fn visit(mut self) -> Result<(), VisitFailed> {
        self.get_in().await?;
        let pages = self.random.one_to(PAGES_MAX);
        let visit = spread(self.random, VISIT_MIN_SECONDS, VISIT_SECONDS);
        // The page of the entry is one more to read.
        let reading = visit / u32::try_from(pages + 1).unwrap_or(1);
        let wanted = shop::name_of(self.random.one_to(shop::NAMES.len() as u64) - 1);
        for page in 1..=pages {
            tokio::time::sleep(reading).await;
            let is_last = page == pages;
            let path =
                if is_last { format!("/product/{wanted}") } else { format!("/search?q={}", &wanted[..3]) };
            self.open(&path).await?;
        }
        tokio::time::sleep(reading).await;
        let (path, form) = if self.random.chance(BUYERS) {
            ("/checkout", format!("product={wanted}"))
        } else {
            ("/leave", String::new())
        };
        self.post(path, form).await
    }

    /// Comes to the site, and waits for the turn if need be.
    async fn get_in(&mut self) -> Result<(), VisitFailed> {
        let mut failures = 0;
        loop {
            // A visitor whose turn it is is let in by the very request that asks for a page.
            let reply = self.open("/").await;
            match reply {
                Ok(reply) if is_from_shop(&reply) => return Ok(()),
                // The visitor was given a place.
                Ok(reply) if reply.status.is_success() => tokio::time::sleep(retry_after(&reply)).await,
                _ => {
                    failures += 1;
                    if failures > FAILURES_MAX {
                        return Err(VisitFailed);
                    }
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
            self.wait_for_the_turn().await?;
        }
    }

    /// Polls the place, as often as told, until it changes.
    async fn wait_for_the_turn(&mut self) -> Result<(), VisitFailed> {
        let mut failures = 0;
        loop {
            let Ok(standing) = self.ask().await else {
                failures += 1;
                if failures > FAILURES_MAX {
                    return Err(VisitFailed);
                }
                tokio::time::sleep(FAILURE_PAUSE).await;
                continue;
            };
            match standing.status.as_str() {
                "waiting" | "held" => tokio::time::sleep(self.pause_before_asking(&standing)).await,
                // The visitor's turn; the page will tell.
                "active" | "admitted" => return Ok(()),
                // The place is gone; the next visit is that of a new visitor.
                _ => return Err(VisitFailed),
            }
        }
    }

    fn pause_before_asking(&self, standing: &Standing) -> Duration {
        let told = standing.next_poll_seconds.map_or(FAILURE_PAUSE, Duration::from_secs);
        let far = self.shared.question_pause.max(told);
        let is_far = standing.estimated_wait_seconds.is_some_and(|wait| Duration::from_secs(wait) > far * 2);
        if is_far { far } else { told }
    }

    /// Opens a page as a browser does, and follows redirects: a newcomer is redirected through the door, and back.
    async fn open(&mut self, path: &str) -> Result<Reply, VisitFailed> {
        let mut reply = self.send(Method::GET, path, PAGE_ACCEPT, None).await?;
        for _ in 0..REDIRECTS_MAX {
            let location = reply.headers.get(LOCATION).filter(|_| reply.status == StatusCode::SEE_OTHER);
            let Some(path) = location.and_then(|location| location.to_str().ok()).map(str::to_owned) else {
                break;
            };
            reply = self.send(Method::GET, &path, PAGE_ACCEPT, None).await?;
        }
        Ok(reply)
    }

    /// Sends a form, and expects the shop to take it.
    async fn post(&mut self, path: &str, form: String) -> Result<(), VisitFailed> {
        let reply = self.send(Method::POST, path, PAGE_ACCEPT, Some(Bytes::from(form))).await?;
        if is_from_shop(&reply) { Ok(()) } else { Err(VisitFailed) }
    }

    async fn ask(&mut self) -> Result<Standing, VisitFailed> {
        let path = format!("/.anteroom/line?room={ROOM}");
        let reply = self.send(Method::GET, &path, HeaderValue::from_static("application/json"), None).await?;
        serde_json::from_slice(&reply.body).map_err(|_| VisitFailed)
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        accept: HeaderValue,
        form: Option<Bytes>,
    ) -> Result<Reply, VisitFailed> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, NAME);
        if accept == PAGE_ACCEPT {
            headers.extend(NAVIGATION);
        }
        headers.insert(ACCEPT, accept);
        if form.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        if let Some(cookies) = self.cookies.header() {
            headers.insert(COOKIE, cookies);
        }
        let _connection = self.shared.connections.acquire().await.map_err(|_| VisitFailed)?;
        // In a box, so that those who sleep do not carry the room for it.
        let reply = Box::pin(self.shared.client.request(method, path, headers, form))
            .await
            .map_err(|_| VisitFailed)?;
        self.cookies.take(&reply.headers);
        Ok(reply)
    }
}

fn is_from_shop(reply: &Reply) -> bool {
    reply.headers.get(SERVED_BY.0).is_some_and(|value| value == SERVED_BY.1)
}

fn retry_after(reply: &Reply) -> Duration {
    let told =
        reply.headers.get(hyper::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    told.map_or(FAILURE_PAUSE, Duration::from_secs).min(FAILURE_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_number_of_visitors() {
        assert_eq!([0, 40, 120, 1_000, 20_000].map(capacity_for), [0, 6, 18, 157, 3_157]);
        let waits = [(0, 1), (1, 1), (2, 1), (6, 1), (12, 1), (120, 18), (20_000, 3_157)];
        let waits = waits.map(|(visitors, capacity)| wait_seconds(visitors, capacity));
        assert_eq!(waits, [0, 0, 6, 42, 96, 48, 45]);
    }

    #[test]
    fn times_are_spread_around_their_mean() {
        let mut random = Random::of_visitor(1, 1);
        let seconds: Vec<f64> = (0..1_000).map(|_| spread(&mut random, 5, 8).as_secs_f64()).collect();
        assert!(seconds.iter().all(|seconds| (5.0..11.0).contains(seconds)));
        let mean = seconds.iter().sum::<f64>() / 1_000.0;
        assert!((7.7..8.3).contains(&mean), "{mean}");
    }
}
