//! "An auction with 10,000 clients over real connections: each round's winners are exactly the F earliest present." Seen from
//! outside: the test knows who was present at each round, and how many slots were free.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anteroom_testkit::{Server, full, jwt, now, wait_for, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::BINARY;
use crate::support::auction::{TIMEOUT, hall, present, rounds, subject};
use crate::support::metrics::metric;

/// Rounds whose winners were compared.
const ROUNDS_JUDGED: u32 = 3;
/// A round is judged if it did not end while people were still coming; on a busy machine some do.
const DEADLINE: Duration = Duration::from_mins(9);

/// Sizes: clients, slots, seconds a round.
fn sizes() -> (usize, usize, u64) {
    if full() { (10_000, 1_000, 20) } else { (600, 60, 5) }
}

/// One client with a connection of its own, which stays open from round to round.
struct Visitor {
    stream: TcpStream,
    ticket: Option<String>,
}

/// An answer: its status and its JSON.
type Answer = (u16, serde_json::Value);

impl Visitor {
    async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.expect("a connection"), ticket: None }
    }

    async fn send(&mut self) {
        // The server closes what was idle for too long, as clients of keep-alive know.
        if matches!(self.stream.try_read(&mut [0]), Ok(0)) {
            let address = self.stream.peer_addr().expect("an address");
            self.stream = TcpStream::connect(address).await.expect("a connection");
        }
        let shown = self
            .ticket
            .as_ref()
            .map_or_else(String::new, |ticket| format!("Authorization: Bearer {ticket}\r\n"));
        let request = format!("POST /auction HTTP/1.1\r\nHost: hall\r\n{shown}\r\n");
        self.stream.write_all(request.as_bytes()).await.expect("written");
    }

    async fn read(&mut self) -> Answer {
        let mut bytes = Vec::new();
        loop {
            assert!(
                self.stream.read_buf(&mut bytes).await.expect("an answer") > 0,
                "closed without an answer"
            );
            if let Some(answer) = parsed(&bytes) {
                return answer;
            }
        }
    }

    async fn ask(&mut self) -> Answer {
        self.send().await;
        self.read().await
    }
}

/// The answer, once all of it is there.
fn parsed(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().expect("a length"))
    });
    let length: usize = length.expect("a Content-Length");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (body.len() == length).then(|| (status, serde_json::from_str(body).expect("JSON")))
}

/// Everybody who waits and everybody inside, by position.
struct Crowd<'a> {
    server: &'a Server,
    slots: usize,
    waiting: BTreeMap<u64, Visitor>,
    /// Access tokens of all who ever got one.
    passes: BTreeMap<u64, String>,
    inside: BTreeSet<u64>,
    /// A small generator of its own, so that a run can be repeated.
    random: u64,
}

impl Crowd<'_> {
    fn dice(&mut self, sides: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % sides
    }

    async fn arrive(&mut self, clients: usize) {
        for _ in 0..clients {
            let mut visitor = Visitor::connect(self.server.public()).await;
            let (status, body) = visitor.ask().await;
            assert_eq!(status, 200, "{body}");
            if let Some(pass) = body["accessToken"].as_str() {
                self.enters(pass);
            } else {
                let ticket = body["queueToken"].as_str().expect("a ticket").to_owned();
                let position = jwt::claims(&ticket)["sub"].as_str().and_then(|text| text.parse().ok());
                visitor.ticket = Some(ticket);
                self.waiting.insert(position.expect("a position"), visitor);
            }
        }
    }

    fn enters(&mut self, pass: &str) {
        let position = jwt::claims(pass)["queue_position"].as_u64().expect("a position");
        assert_eq!(
            self.passes.insert(position, pass.to_owned()),
            None,
            "position {position} got a second pass"
        );
        self.inside.insert(position);
        assert!(self.inside.len() <= self.slots, "{} inside of {}", self.inside.len(), self.slots);
    }

    /// All who are inside leave, in a round in which somebody is turned away; returns how many slots the next round has for sure.
    async fn empty_the_hall(&mut self) -> Option<usize> {
        let before = rounds(self.server);
        let mut last = self.waiting.last_entry().expect("somebody waits");
        let (status, _) = last.get_mut().ask().await;
        assert_eq!(status, 429, "no slot is free");
        let mut line = self.server.line("Hall");
        for position in std::mem::take(&mut self.inside) {
            assert_eq!(line.close(&subject(&self.passes[&position]), 1).status, 200);
        }
        if rounds(self.server) != before {
            // They left in two rounds, so nobody knows how many slots each of the next ones has.
            return None;
        }
        wait_until("the next round has begun", TIMEOUT, || rounds(self.server) > before);
        Some(self.slots)
    }

    /// One round: some come and hang up, then half of the others come in any order. Returns whether it could be judged.
    async fn round(&mut self, slots: Option<usize>) -> bool {
        let began = rounds(self.server);
        if slots.is_some() {
            self.some_hang_up().await;
        }
        let mut coming: Vec<u64> = self.waiting.keys().copied().collect();
        // Always more than can win, else the next slots are given away immediately.
        coming.retain(|_| self.dice(2) == 0);
        for index in (1..coming.len()).rev() {
            let other = usize::try_from(self.dice(index as u64 + 1)).expect("a small number");
            coming.swap(index, other);
        }
        assert!(coming.len() > self.slots, "{} come for {} slots", coming.len(), self.slots);
        let (told, mut count) = watch::channel(0_usize);
        let mut checking_in = JoinSet::new();
        for &position in &coming {
            let mut visitor = self.waiting.remove(&position).expect("waits");
            // Sent in this order; a check-in that comes later may be earlier in line.
            visitor.send().await;
            let told = told.clone();
            checking_in.spawn(async move {
                let answer = visitor.read().await;
                told.send_modify(|count| *count += 1);
                (position, visitor, answer)
            });
        }
        // Everybody has come when all are answered but those who sit.
        let all_came = slots.is_some_and(|slots| {
            wait_for("everybody has come, or the round is over", TIMEOUT, || {
                let answered = *count.borrow_and_update();
                let seated = usize::try_from(present(self.server, "Hall")).expect("a small number");
                let over = rounds(self.server) != began;
                (over || (seated == slots && answered + slots == coming.len())).then_some(!over)
            })
        });
        let mut winners = BTreeSet::new();
        while let Some(done) = checking_in.join_next().await {
            let (position, visitor, (status, body)) = done.expect("the check-in ends");
            match status {
                200 => {
                    winners.insert(position);
                    self.enters(body["accessToken"].as_str().expect("a pass"));
                    assert!(jwt::claims(&self.passes[&position])["enter_by"].is_u64());
                    // Asked again, over the same connection or another: the same pass.
                    self.asks_again(position, visitor).await;
                }
                429 => drop(self.waiting.insert(position, visitor)),
                other => panic!("{other} {body}"),
            }
        }
        let Some(slots) = slots.filter(|_| all_came) else { return false };
        coming.sort_unstable();
        let earliest: BTreeSet<u64> = coming[..slots].iter().copied().collect();
        assert_eq!(winners, earliest, "the {slots} earliest of {} present win", coming.len());
        true
    }

    /// Those earliest in line come, and go again before the round is over: they must not win.
    async fn some_hang_up(&mut self) {
        let server = self.server;
        let most = self.slots / 10;
        let positions: Vec<u64> = self.waiting.keys().copied().take(most).collect();
        for position in &positions {
            self.waiting.get_mut(position).expect("waits").send().await;
        }
        let began = rounds(server);
        wait_until("they sit, or the round is over", TIMEOUT, || {
            present(server, "Hall") == positions.len() as u64 || rounds(server) != began
        });
        for position in positions {
            let gone = self.waiting.remove(&position).expect("waits");
            let mut again = Visitor::connect(server.public()).await;
            again.ticket = gone.ticket;
            drop(gone.stream);
            self.waiting.insert(position, again);
        }
        wait_until("their seats are free", TIMEOUT, || present(server, "Hall") == 0);
    }

    async fn asks_again(&mut self, position: u64, mut visitor: Visitor) {
        if position.is_multiple_of(7) {
            // The connection of this one died.
            let ticket = visitor.ticket.take();
            visitor = Visitor { ticket, ..Visitor::connect(self.server.public()).await };
        }
        if position % 7 < 2 {
            let (status, body) = visitor.ask().await;
            assert_eq!((status, body["accessToken"].as_str()), (200, Some(self.passes[&position].as_str())));
        }
    }
}

#[test]
fn an_auction_with_10_000_clients_each_rounds_winners_are_exactly_the_f_earliest_present() {
    let (clients, slots, round_seconds) = sizes();
    rlimit::increase_nofile_limit(u64::MAX).expect("a limit of open files");
    // EdDSA: a thousand passes of a round take no time, and this is about who gets them. Connections stay open between rounds.
    let config = format!(
        "signing_algorithm = \"EdDSA\"\nheader_read_timeout_seconds = 300\n{}",
        hall("Hall", slots as u64, round_seconds)
    );
    let server = Server::builder(BINARY).config(config).start().expect("the server starts");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut crowd = Crowd {
            server: &server,
            slots,
            waiting: BTreeMap::new(),
            passes: BTreeMap::new(),
            inside: BTreeSet::new(),
            random: 20_261_116,
        };
        crowd.arrive(clients).await;
        assert_eq!(
            (crowd.inside.len(), crowd.waiting.len()),
            (slots, clients - slots),
            "the first immediately"
        );
        let (started, mut judged, mut held) = (now(), 0, 0);
        while judged < ROUNDS_JUDGED {
            assert!(started.elapsed() < DEADLINE, "{judged} of {held} rounds could be judged");
            let free = if crowd.inside.len() == slots { crowd.empty_the_hall().await } else { None };
            held += 1;
            judged += u32::from(crowd.round(free).await);
        }
    });
    assert!(metric(&server, "anteroom_auction_winners_total") >= u64::from(ROUNDS_JUDGED) * slots as u64);
}
