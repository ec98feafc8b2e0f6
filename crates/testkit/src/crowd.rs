//! Visitors of a room with a capacity, who come through any of several nodes at random: they join, wait, claim, look around and
//! leave, or give up halfway. They keep a record of the responses they got, and count how many of them are inside at
//! once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::aws;
use crate::http::{Answer, Client};
use crate::ledger::JoinRecord;
use crate::native::{self, LinePlace};
use crate::prng::Prng;
use crate::server::Server;
use crate::wait::{SetOnDrop, now, pause};

/// How long one visit may take, from the first attempt to join to the end.
const VISIT_DEADLINE: Duration = Duration::from_mins(3);
/// How many requests a second all visitors together send while they wait, about.
const POLLS_A_SECOND: u64 = 1_000;
/// One visitor in so many gives up their place at once.
const LEAVERS: u64 = 6;
/// One visitor in so many never claims.
const ABSENTEES: u64 = 16;

/// The room, the way to it, and who is inside.
#[derive(Debug)]
pub struct Crowd {
    room: String,
    admin_key: String,
    /// The public and the private listener of each node.
    nodes: Mutex<Vec<[SocketAddr; 2]>>,
    visitors: u64,
    /// Pauses between two looks of one visitor.
    look_pauses: u64,
    acknowledged: AtomicUsize,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    is_over: AtomicBool,
}

/// What became of the visits of one visitor, or of all.
#[derive(Debug, Default)]
pub struct Tally {
    /// Joins that were answered.
    pub joins: Vec<JoinRecord>,
    /// Joins of which nobody knows whether they happened: no answer, or 503.
    pub unknown_joins: usize,
    /// Places given up.
    pub left: usize,
    /// Places whose holders never claimed, or claimed too late.
    pub lapsed: usize,
    /// Passes that were handed out.
    pub admitted: usize,
    /// Answers that a ticket was unknown, although it had been handed out.
    pub unknown_tickets: usize,
    /// Claims that were refused although a node had answered that the place may be claimed.
    pub unserved_claims: usize,
    /// Answers 503, whatever was asked for.
    pub unavailable: usize,
}

impl Tally {
    /// Takes in another one.
    pub fn add(&mut self, other: Self) {
        self.joins.extend(other.joins);
        self.unknown_joins += other.unknown_joins;
        self.left += other.left;
        self.lapsed += other.lapsed;
        self.admitted += other.admitted;
        self.unknown_tickets += other.unknown_tickets;
        self.unserved_claims += other.unserved_claims;
        self.unavailable += other.unavailable;
    }
}

impl Crowd {
    /// So many visitors at a time, each with connections of their own, of a room behind these servers.
    pub fn before(servers: &[Server], room: &str, visitors: u64) -> Self {
        Self {
            visitors,
            room: room.to_owned(),
            admin_key: servers.first().map_or_else(String::new, |server| server.admin_key().to_owned()),
            nodes: Mutex::new(servers.iter().map(|server| [server.public(), server.private()]).collect()),
            look_pauses: (visitors * 100 / POLLS_A_SECOND).max(2),
            acknowledged: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// A server was started again and listens on another port.
    pub fn node_moved(&self, index: usize, server: &Server) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)[index] =
            [server.public(), server.private()];
    }

    /// How many joins were answered so far.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// The most visitors who were inside at once, by a count that begins when a claim is answered and ends before the end of the
    /// visit is reported. So it never counts a visitor whom the room does not.
    pub fn most_inside(&self) -> usize {
        self.most_inside.load(Ordering::SeqCst)
    }

    /// Has all visitors come, this many times each, while something else happens.
    #[track_caller]
    pub fn come(&self, visits: usize, meanwhile: impl FnOnce()) -> Tally {
        self.run(Some(visits), meanwhile)
    }

    /// Has all visitors come again and again until something else has happened.
    #[track_caller]
    pub fn come_until(&self, meanwhile: impl FnOnce()) -> Tally {
        self.run(None, meanwhile)
    }

    #[track_caller]
    fn run(&self, visits: Option<usize>, meanwhile: impl FnOnce()) -> Tally {
        self.is_over.store(false, Ordering::SeqCst);
        let mut tally = Tally::default();
        thread::scope(|scope| {
            let visit = |seed| scope.spawn(move || self.visit(seed, visits.unwrap_or(usize::MAX)));
            let visitors: Vec<_> = (0..self.visitors).map(visit).collect();
            // Also when it panics nobody goes on for ever.
            let mut end = Some(SetOnDrop(&self.is_over));
            meanwhile();
            if visits.is_none() {
                end.take();
            }
            for visitor in visitors {
                tally.add(visitor.join().expect("a visitor does not panic"));
            }
        });
        tally
    }

    /// One visitor after the other, this many at most.
    fn visit(&self, seed: u64, visits: usize) -> Tally {
        let mut visitor = Visitor {
            crowd: self,
            prng: Prng::from_seed_and_stream(seed, 1),
            clients: BTreeMap::new(),
            tally: Tally::default(),
            began: now(),
        };
        for _ in 0..visits {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            visitor.visit();
        }
        visitor.tally
    }

    fn enter(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_inside.fetch_max(inside, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Which listener.
#[derive(Clone, Copy)]
enum Side {
    Public = 0,
    Private = 1,
}

struct Visitor<'a> {
    crowd: &'a Crowd,
    prng: Prng,
    clients: BTreeMap<SocketAddr, Client>,
    tally: Tally,
    began: Instant,
}

impl Visitor<'_> {
    fn visit(&mut self) {
        self.began = now();
        let (leaves, is_absent) = (self.prng.one_in(LEAVERS), self.prng.one_in(ABSENTEES));
        let Some(place) = self.join() else { return };
        if place.is_admitted {
            self.crowd.enter();
        } else if leaves {
            return self.give_up(&place);
        } else if is_absent || !self.wait_for_admission(&place) {
            self.tally.lapsed += 1;
            return;
        }
        self.tally.admitted += 1;
        for _ in 0..self.prng.below(5) {
            pause();
        }
        self.crowd.leave();
        self.end(&place);
    }

    /// A place; `None` if the crowd goes home before anybody has answered.
    fn join(&mut self) -> Option<LinePlace> {
        loop {
            let sent = now();
            let answer = self.call(Side::Public, native::join);
            let answered = now();
            match answer {
                Some(answer) if answer.status == 200 => {
                    let place = LinePlace::of(&answer);
                    self.tally.joins.push(JoinRecord { place: place.clone(), sent, answered });
                    self.crowd.acknowledged.fetch_add(1, Ordering::SeqCst);
                    return Some(place);
                }
                Some(answer) if answer.status != 503 => panic!("a join was answered with {answer:?}"),
                _ => self.tally.unknown_joins += 1,
            }
            if self.crowd.is_over.load(Ordering::SeqCst) {
                return None;
            }
            self.look_again("joining");
        }
    }

    fn give_up(&mut self, place: &LinePlace) {
        let mut is_repeated = false;
        loop {
            let answer = self.call(Side::Public, |client, room| native::leave(client, room, &place.ticket));
            match answer.map(|answer| (answer.status, answer)) {
                Some((200, _)) => self.tally.left += 1,
                // Carried out the first time, though nobody said so; or the offer had lapsed by then.
                Some((410, _)) if is_repeated => self.tally.left += 1,
                Some((410, _)) => self.tally.lapsed += 1,
                Some((404, _)) => {
                    self.tally.unknown_tickets += 1;
                    self.look_again("leaving");
                    continue;
                }
                None | Some((503, _)) => {
                    is_repeated = true;
                    self.look_again("leaving");
                    continue;
                }
                Some((_, answer)) => panic!("leaving was answered with {answer:?}"),
            }
            return;
        }
    }

    /// Waits and claims; false if the place lapsed.
    fn wait_for_admission(&mut self, place: &LinePlace) -> bool {
        loop {
            self.look_again("waiting");
            let Some(answer) =
                self.call(Side::Public, |client, room| native::status(client, room, &place.ticket))
            else {
                continue;
            };
            let status = match answer.status {
                200 => answer.json()["status"].as_str().unwrap_or_default().to_owned(),
                404 => {
                    self.tally.unknown_tickets += 1;
                    continue;
                }
                503 => continue,
                _ => panic!("status was answered with {answer:?}"),
            };
            match status.as_str() {
                "waiting" => {}
                // Admitted: a claim of this visitor was carried out, but not answered.
                "active" | "admitted" => {
                    if let Some(is_admitted) = self.claim(place) {
                        return is_admitted;
                    }
                }
                "expired" => return false,
                _ => panic!("this is no status: {answer:?}"),
            }
        }
    }

    /// `None`: to be tried again.
    fn claim(&mut self, place: &LinePlace) -> Option<bool> {
        let answer = self.call(Side::Public, |client, room| native::claim(client, room, &place.ticket))?;
        match answer.status {
            200 => {
                self.crowd.enter();
                Some(true)
            }
            410 => Some(false),
            404 => {
                self.tally.unknown_tickets += 1;
                None
            }
            409 => {
                self.tally.unserved_claims += 1;
                None
            }
            503 => None,
            _ => panic!("a claim was answered with {answer:?}"),
        }
    }

    /// Reports the end of the visit, until a node has confirmed it.
    fn end(&mut self, place: &LinePlace) {
        loop {
            let completed =
                |client: &mut Client, room: &str| aws::update_session(client, room, &place.request_id, 1);
            match self.call(Side::Private, completed) {
                // 404: reported before without an answer, run out, or lost with its store.
                Some(answer) if matches!(answer.status, 200 | 404) => return,
                Some(answer) if answer.status != 503 => panic!("an end was answered with {answer:?}"),
                _ => self.look_again("ending"),
            }
        }
    }

    /// Asks any node.
    fn call(
        &mut self,
        side: Side,
        ask: impl FnOnce(&mut Client, &str) -> anyhow::Result<Answer>,
    ) -> Option<Answer> {
        let address = {
            let nodes = self.crowd.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes[self.prng.below(nodes.len())][side as usize]
        };
        let client = self.clients.entry(address).or_insert_with(|| match side {
            Side::Public => Client::new(address),
            Side::Private => Client::new(address).with_bearer(&self.crowd.admin_key),
        });
        let answer = ask(client, &self.crowd.room).ok();
        if let Some(answer) = &answer {
            self.tally.unavailable += usize::from(answer.status == 503);
            let has_hint = answer.status != 503 || answer.header("Retry-After").is_some();
            assert!(has_hint && answer.status != 500, "{answer:?}");
        }
        answer
    }

    fn look_again(&self, what: &str) {
        assert!(self.began.elapsed() < VISIT_DEADLINE, "{what} in vain for {VISIT_DEADLINE:?}");
        for _ in 0..self.crowd.look_pauses {
            pause();
        }
    }
}
