//! A receiver of webhooks that behaves as badly as a test wants, and remembers what it has taken.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anteroom_testkit::now;
use serde_json::Value;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 204: it has been taken.
    Take,
    /// The same, after a while.
    TakeAfter(Duration),
    /// It has been taken, but the connection breaks off before the answer.
    TakeAndClose,
    /// A status, and nothing taken.
    Refuse(u16),
    /// 503 with `Retry-After: 1`.
    RetryAfter,
    /// 302 to another address.
    Redirect,
    /// Nothing, until the other side gives up.
    Hang,
    /// The connection is closed at once.
    Close,
}

/// An event as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) event: Value,
    pub(crate) at: Instant,
}

#[derive(Default)]
struct State {
    arrivals: Mutex<Vec<Arrival>>,
    /// Answers in turn; the last one goes on for ever.
    plan: Mutex<Vec<Answer>>,
    requests: AtomicUsize,
    /// Requests to where a redirect leads.
    followed: AtomicUsize,
    closed: AtomicBool,
}

/// The receiver.
pub(crate) struct Receiver {
    state: Arc<State>,
    address: SocketAddr,
}

impl Receiver {
    /// One that takes everything.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State::default());
        let serving = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.closed.load(Ordering::SeqCst) {
                    return;
                }
                let serving = serving.clone();
                thread::spawn(move || drop(serving.serve(&stream)));
            }
        });
        Self { state, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// From now on requests are answered so, in turn and again from the beginning.
    pub(crate) fn plan(&self, answers: &[Answer]) {
        *self.state.plan.lock().unwrap_or_else(PoisonError::into_inner) = answers.to_vec();
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.state.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn arrived(&self) -> usize {
        self.state.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn followed_redirects(&self) -> usize {
        self.state.followed.load(Ordering::SeqCst)
    }

    /// How many different events have arrived.
    pub(crate) fn distinct(&self) -> usize {
        let mut ids: Vec<(String, String)> =
            self.arrivals().iter().map(|arrival| id_of(&arrival.event)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

/// What an event is known by: its source and its id.
pub(crate) fn id_of(event: &Value) -> (String, String) {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    (text("source"), text("id"))
}

impl State {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream.try_clone()?);
        loop {
            let Some((target, body)) = read_request(&mut reader)? else { return Ok(()) };
            if target == "/elsewhere" {
                self.followed.fetch_add(1, Ordering::SeqCst);
            }
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            let answer = {
                let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
                if plan.is_empty() { Answer::Take } else { plan[number % plan.len()] }
            };
            let respond = |writer: &mut TcpStream, status: &str, headers: &str| {
                writer
                    .write_all(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\n\r\n").as_bytes())
            };
            match answer {
                Answer::Take => {
                    self.take(&body);
                    respond(&mut writer, "204 No Content", "")?;
                }
                Answer::TakeAfter(pause) => {
                    thread::sleep(pause);
                    self.take(&body);
                    respond(&mut writer, "204 No Content", "")?;
                }
                Answer::TakeAndClose => {
                    self.take(&body);
                    return Ok(());
                }
                Answer::Refuse(status) => respond(&mut writer, &format!("{status} No"), "")?,
                Answer::RetryAfter => respond(&mut writer, "503 Busy", "Retry-After: 1\r\n")?,
                Answer::Redirect => respond(&mut writer, "302 Found", "Location: /elsewhere\r\n")?,
                Answer::Hang => {
                    // Until the other side closes.
                    drop(reader.read(&mut [0; 1]));
                    return Ok(());
                }
                Answer::Close => return Ok(()),
            }
        }
    }

    fn take(&self, body: &[u8]) {
        let at = now();
        let body: Value = serde_json::from_slice(body).expect("a webhook is JSON");
        let events = match body {
            Value::Array(events) => events,
            one => vec![one],
        };
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.extend(events.into_iter().map(|event| Arrival { event, at }));
    }
}

fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut line, mut target, mut length) = (String::new(), None, 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        if target.is_none() {
            target = text.split(' ').nth(1).map(str::to_owned);
            continue;
        }
        let (name, value) = text.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((target.unwrap_or_default(), body)))
}

/// Compares what arrived with what the outbox says: everything is there, first arrivals of each room are in order, and what came again
/// has the id that it had. Returns how many came again.
#[track_caller]
pub(crate) fn assert_all_in_order(written: &[Value], arrivals: &[Arrival]) -> usize {
    let mut firsts: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut seen: HashMap<(String, String), &Value> = HashMap::new();
    for arrival in arrivals {
        let id = id_of(&arrival.event);
        if let Some(before) = seen.get(&id) {
            assert_eq!(before["data"], arrival.event["data"], "the same id is the same event");
            continue;
        }
        seen.insert(id.clone(), &arrival.event);
        firsts.entry(id.0).or_default().push(&arrival.event);
    }
    let mut expected: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for event in written {
        let id = id_of(event);
        expected.entry(id.0.clone()).or_default().push(id);
    }
    for (source, expected) in &expected {
        let got: Vec<(String, String)> =
            firsts.get(source).into_iter().flatten().map(|event| id_of(event)).collect();
        let missing = expected.iter().filter(|id| !got.contains(id)).take(3).collect::<Vec<_>>();
        assert!(
            got.len() >= expected.len(),
            "{source}: {} of {}, such as {missing:?}",
            got.len(),
            expected.len()
        );
        // Alarms have a queue of their own, so only what has one queue has one order.
        if source != "/server" {
            assert!(got == *expected, "{source}: out of order");
        }
    }
    arrivals.len() - seen.len()
}
