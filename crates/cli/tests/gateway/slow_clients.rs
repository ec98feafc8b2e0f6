//! Clients that send or read as slowly as they can take nothing away from a visitor who is inside.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Answer, Browser, Reply, Request, Server, SetOnDrop, now, wait_until};
use socket2::{Domain, Socket, Type};

use crate::stand::{Stand, TIMEOUT};
use crate::support::metrics::metric;

/// How many connections to an origin the requests of one visit hold.
const PER_VISIT: u64 = 32;
/// More than an origin gets connections.
const CLIENTS: usize = 300;
/// How long a visitor inside waits for an answer.
const SERVED_WITHIN: Duration = Duration::from_secs(1);
/// How often the visitor asks.
const REQUESTS: usize = 20;
/// How many times as long as the slowest answer without slow clients, or of the site itself, one may take beyond that, where the machine is
/// slow.
const SLOWEST_FACTOR: u32 = 4;

/// A connection from an address of its own, whose kernel takes next to nothing for it.
fn connect(server: &Server, number: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(1).expect("the smallest buffer there is");
    let [high, low] = u16::try_from(number + 1).expect("few clients").to_be_bytes();
    let source = SocketAddr::from((Ipv4Addr::new(127, 7, high, low), 0));
    socket.bind(&source.into()).expect("an address of this machine");
    socket.connect(&server.public().into()).expect("the server accepts");
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// Begins a request and sends nothing more than this.
fn begin(server: &Server, number: usize, head: &str, cookies: Option<&str>) -> TcpStream {
    let mut stream = connect(server, number);
    let cookies = cookies.map_or_else(String::new, |cookies| format!("Cookie: {cookies}\r\n"));
    let bytes = format!("{head}\r\nHost: shop.example\r\n{cookies}");
    let (bytes, body) = if head.starts_with("POST") {
        (bytes + "Content-Length: 1000000\r\n\r\n", "x")
    } else {
        (bytes + "\r\n", "")
    };
    stream.write_all(format!("{bytes}{body}").as_bytes()).expect("the request can be begun");
    stream
}

/// How many requests are at the origin.
fn at_origin(stand: &Stand) -> u64 {
    metric(&stand.server, "anteroom_gateway_origin_requests")
}

/// So many clients that ask for a large answer and read nothing of it: half of them inside, half of them past the room.
fn begin_readers(stand: &Stand, cookies: &str, first: usize) -> Vec<TcpStream> {
    let large = Reply::new(200).header("Content-Type", "application/zip").body(vec![7; 4 << 20]);
    stand.site.answer("/large", large.clone());
    stand.site.answer("/free/large", large);
    let begin_reader = |number: usize| {
        let (head, cookies) = if number.is_multiple_of(2) {
            ("GET /large HTTP/1.1", Some(cookies))
        } else {
            ("GET /free/large HTTP/1.1", None)
        };
        begin(&stand.server, first + number, head, cookies)
    };
    (0..CLIENTS).map(begin_reader).collect()
}

/// Waits until each of these readers has got a connection, or was refused one.
#[track_caller]
fn wait_until_readers_are_served(stand: &Stand) {
    wait_until("each reader has an answer", TIMEOUT, || {
        let begun = stand.site.request_log().iter().filter(|seen| seen.path().ends_with("/large")).count();
        let refused = stand.verdicts().get("origin_failed").copied().unwrap_or(0);
        begun as u64 + refused >= CLIENTS as u64
    });
    wait_until_connections_are_held(stand);
}

/// Waits until slow clients have the connections, and nobody waits for one.
#[track_caller]
fn wait_until_connections_are_held(stand: &Stand) {
    wait_until("slow clients hold the connections", TIMEOUT, || {
        at_origin(stand) >= 150 && metric(&stand.server, "anteroom_gateway_origin_requests_waiting") == 0
    });
}

/// A visitor inside who asks again and again, and how long the slowest answer took before anybody was slow. Beside them somebody asks the
/// site itself: where that takes long, too, it is the machine.
struct Visitor {
    browser: Browser,
    direct: Browser,
    slowest: Duration,
}

impl Visitor {
    #[track_caller]
    fn enter(stand: &Stand) -> Self {
        let address = stand.site.url().trim_start_matches("http://").parse().expect("an address");
        let mut visitor =
            Self { browser: stand.inside(), direct: Browser::new(address), slowest: Duration::ZERO };
        (visitor.slowest, _) = visitor.ask();
        visitor
    }

    /// Asks for a page so many times; how long the slowest answer took, and the slowest of the site itself.
    #[track_caller]
    fn ask(&mut self) -> (Duration, Duration) {
        let mut slowest = (Duration::ZERO, Duration::ZERO);
        for _ in 0..REQUESTS {
            let begun = now();
            let answer: Answer = self.browser.open("/page");
            let took = begun.elapsed();
            assert!(answer.is_from_site(), "after {took:?}: {answer:?}");
            slowest.0 = slowest.0.max(took);
            let begun = now();
            assert!(self.direct.open("/page").is_from_site());
            slowest.1 = slowest.1.max(begun.elapsed());
        }
        slowest
    }

    /// Wants each answer within a second.
    #[track_caller]
    fn assert_served(&mut self) {
        let (slowest, direct) = self.ask();
        let most = SERVED_WITHIN + SLOWEST_FACTOR * self.slowest.max(direct);
        assert!(slowest < most, "{slowest:?}, without slow clients {:?}, direct {direct:?}", self.slowest);
    }
}

#[test]
fn uploads_that_trickle_leave_a_visitor_inside_served() {
    let stand = Stand::open(5, "bypass = [\"path:/free\"]");
    let mut visitor = Visitor::enter(&stand);
    let mut thief = stand.inside();
    let cookies = thief.cookies.header().expect("a cookie");
    let over = AtomicBool::new(false);
    let is_over = &over;
    thread::scope(|scope| {
        let _end = SetOnDrop(&over);
        let mut clients: Vec<TcpStream> = (0..CLIENTS)
            .map(|number| {
                // Half of them inside, half of them past the room.
                let (head, cookies) = if number.is_multiple_of(2) {
                    ("POST /upload HTTP/1.1", Some(cookies.as_str()))
                } else {
                    ("POST /free HTTP/1.1", None)
                };
                begin(&stand.server, number, head, cookies)
            })
            .collect();
        scope.spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                for client in &mut clients {
                    // Some are refused meanwhile.
                    let _sent = client.write_all(b"x");
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
        wait_until("they are under way", TIMEOUT, || {
            at_origin(&stand) + metric(&stand.server, "anteroom_gateway_uploads") >= 256
        });
        visitor.assert_served();
        // Also once those that trickle go out as they come, and hold every connection.
        wait_until_connections_are_held(&stand);
        visitor.assert_served();
        // And with as many readers that take nothing.
        let _readers = begin_readers(&stand, &cookies, CLIENTS);
        wait_until_readers_are_served(&stand);
        visitor.assert_served();
        assert!(thief.open("/page").is_from_site());
    });
}

#[test]
fn readers_that_take_nothing_leave_a_visitor_inside_served() {
    let stand = Stand::open(5, "bypass = [\"path:/free\"]");
    let mut visitor = Visitor::enter(&stand);
    let thief = stand.inside();
    let cookies = thief.cookies.header().expect("a cookie");
    let _clients = begin_readers(&stand, &cookies, 0);
    // While they all come at once, before any of them counts as slow.
    visitor.assert_served();
    wait_until_readers_are_served(&stand);
    visitor.assert_served();
}

/// A page whose answer is so slow in coming that it has nothing to do with the speed of the machine.
#[test]
fn requests_of_one_visit_wait_for_each_other_and_nobody_waits_behind_them() {
    let stand = Stand::open(5, "");
    let mut visitor = Visitor::enter(&stand);
    let thief = stand.inside();
    let cookies = thief.cookies.header().expect("a cookie");
    stand.site.hold("/slow");
    let _clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|number| begin(&stand.server, number, "GET /slow HTTP/1.1", Some(&cookies)))
        .collect();
    wait_until("the others of the visit wait", TIMEOUT, || {
        metric(&stand.server, "anteroom_gateway_origin_requests_waiting") == CLIENTS as u64 - PER_VISIT
    });
    visitor.assert_served();
    assert_eq!(at_origin(&stand), PER_VISIT, "what one visit holds");
    stand.site.let_go("/slow");
    wait_until("each has had its turn", TIMEOUT, || {
        stand.site.request_log().iter().filter(|seen| seen.path() == "/slow").count() == CLIENTS
    });
}

#[test]
fn requests_without_a_visit_leave_connections_to_those_inside() {
    let stand = Stand::open(5, "bypass = [\"path:/free\"]");
    let mut visitor = Visitor::enter(&stand);
    stand.site.hold("/free");
    let _clients: Vec<TcpStream> =
        (0..CLIENTS).map(|number| begin(&stand.server, number, "GET /free HTTP/1.1", None)).collect();
    wait_until("the site has what those without a visit get", TIMEOUT, || at_origin(&stand) >= 128);
    visitor.assert_served();
    assert_eq!(at_origin(&stand), 128, "half of the connections");
    stand.site.let_go("/free");
}

#[test]
fn one_client_has_few_uploads_and_a_slow_one_is_refused() {
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\nuploads_per_client_max = 3\nupload_timeout_seconds = 2\n[[room]]\nid = \"Hall\"\n\
         inlet = \"max-size\"\ntotal_active_users = 5\nbypass = [\"path:/free\"]\n",
    );
    let mut clients: Vec<TcpStream> =
        (0..3).map(|_| begin(&stand.server, 0, "POST /free HTTP/1.1", None)).collect();
    wait_until("they are under way", TIMEOUT, || metric(&stand.server, "anteroom_gateway_uploads") == 3);
    let fourth = begin(&stand.server, 0, "POST /free HTTP/1.1", None);
    assert_status(fourth, 429);
    assert_eq!(metric(&stand.server, "anteroom_gateway_uploads_refused_total"), 1);
    // A small body that is there at once needs no slot, and another client has slots of its own.
    let small = Request::new("POST", "/free").header("Host", "shop.example").body("small");
    assert!(stand.server.visitor().send(&small).expect("an answer").is_from_site());
    let other = begin(&stand.server, 1, "POST /free HTTP/1.1", None);
    for client in clients.drain(..).chain([other]) {
        assert_status(client, 408);
    }
    wait_until("all slots are free", TIMEOUT, || metric(&stand.server, "anteroom_gateway_uploads") == 0);
}

/// Reads the status of the answer.
#[track_caller]
fn assert_status(mut stream: TcpStream, status: u16) {
    use std::io::Read;
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    let mut line = vec![];
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).expect("an answer"), 1, "closed after {line:?}");
        line.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{line:?}, not {status}");
}
