//! `anteroom demo`, taken at its word: what it prints is run as printed, a person who comes gets what it promises, and afterwards
//! nothing is left.
//!
//! Only one test takes the ports that a demo prefers: demos that start at the same moment would compete for them, and which one
//! gets them is of no interest.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anteroom_testkit::{
    Answer, Asking, Browser, Builder, Client, Request, Server, Wire, require, wait_for, wait_until,
    workspace_root,
};
use serde_json::{Value, json};

use crate::support::{BINARY, binary};

const ADMIN_KEY: &str = "demo-key-not-a-secret";
/// How long a demo may take to start, which makes an RSA key, and to do anything else.
const TIMEOUT: Duration = Duration::from_mins(3);
/// The last words of the first screen, after which only figures come.
const LAST_WORDS: &str = "Ctrl-C ends it and deletes its data.\n";
/// A screen on which everything should fit: lines, columns.
const SCREEN: (usize, usize) = (24, 80);

/// A demo that is running.
struct Demo {
    server: Server,
    /// Where visitors come in, where operators do, and where the shop itself is.
    public: SocketAddr,
    private: SocketAddr,
    shop: SocketAddr,
    temporary: tempfile::TempDir,
}

fn builder(temporary_directory: &Path) -> Builder {
    let directory = temporary_directory.display().to_string();
    Server::builder(BINARY).command("demo").env("TMPDIR", directory)
}

/// The first screen of a demo, once it is whole.
fn first_screen(server: &Server) -> String {
    wait_for("the demo has introduced itself", TIMEOUT, || {
        let stdout = server.stdout();
        let end = stdout.find(LAST_WORDS)? + LAST_WORDS.len();
        Some(stdout[..end].to_owned())
    })
}

/// The first address in a text after these words.
#[track_caller]
fn address_after(text: &str, words: &str) -> SocketAddr {
    let found = text.split_once(words).and_then(|(_, rest)| rest.split_once("http://"));
    let found = found.and_then(|(_, rest)| rest.split_once('/')).expect(words).0;
    found.parse().unwrap_or_else(|_| panic!("no address: {found}"))
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        let builder =
            arguments.iter().fold(builder(temporary.path()), |builder, word| builder.argument(*word));
        let server = builder.start_without_waiting().expect("the demo starts");
        let screen = first_screen(&server);
        Self {
            public: address_after(&screen, "Open "),
            private: address_after(&screen, "Operators"),
            shop: address_after(&screen, "An API"),
            server,
            temporary,
        }
    }

    fn operator(&self) -> Client {
        Client::new(self.private).with_bearer(ADMIN_KEY)
    }

    /// What the server says about the room before the shop.
    fn figures(&self) -> RoomFigures {
        let answer = self.operator().get("/rooms/shop").expect("an answer").json();
        let figure =
            |name: &str| answer["figures"][name].as_u64().unwrap_or_else(|| panic!("{name}: {answer}"));
        let capacity = answer["settings"]["total_active_users"].as_u64().expect("a capacity");
        let figures = RoomFigures {
            capacity,
            active: figure("active"),
            offers: figure("offers"),
            waiting: figure("waiting"),
            serving: figure("serving"),
            claimed: figure("claimed"),
            completed: figure("completed"),
        };
        assert!(figures.active + figures.offers <= capacity, "too many places given away: {figures:?}");
        figures
    }

    /// What the shop counts by itself.
    fn counted_by_the_shop(&self, name: &str) -> u64 {
        let counted = Client::new(self.shop).get("/inside").expect("an answer").json();
        counted[name].as_u64().unwrap_or_else(|| panic!("{name}: {counted}"))
    }

    /// The lines of figures so far.
    fn figure_lines(&self) -> Vec<String> {
        let stdout = self.server.stdout();
        stdout.lines().filter(|line| line.starts_with("inside ")).map(str::to_owned).collect()
    }

    /// Ctrl-C; returns the last line.
    fn end(self) -> String {
        self.end_by("INT")
    }

    /// The same by any signal.
    fn end_by(mut self, signal: &str) -> String {
        self.server.signal(signal).expect("a signal");
        let ended = self.server.wait_for_end().expect("it ends");
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        // A restored backup is logged. So is the alarm of client errors, if it is evaluated between a call that shows one and the end.
        let is_expected =
            |line: &str| line.contains("backup restored") || line.contains("Anteroom-Public-4xx-Alarm");
        let is_problem = |line: &str| (line.contains("ERROR") || line.contains("WARN")) && !is_expected(line);
        assert!(!ended.stderr.lines().any(is_problem), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        let left: Vec<_> = fs::read_dir(self.temporary.path()).expect("a directory").collect();
        assert!(left.is_empty(), "{left:?}");
        ended.stdout.lines().last().expect("a last line").to_owned()
    }
}

#[derive(Debug, Clone, Copy)]
struct RoomFigures {
    capacity: u64,
    active: u64,
    offers: u64,
    waiting: u64,
    serving: u64,
    claimed: u64,
    completed: u64,
}

/// The number that stands right after these words.
#[track_caller]
fn number_after(line: &str, words: &str) -> u64 {
    let rest = line.split_once(words).unwrap_or_else(|| panic!("no `{words}` in {line}")).1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number after `{words}` in {line}"))
}

#[test]
fn the_first_screen_is_short_figures_follow_it_and_ctrl_c_ends_everything() {
    let demo = Demo::start(&[]);
    let screen = first_screen(&demo.server);
    assert!(screen.lines().count() + 2 <= SCREEN.0, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() < SCREEN.1), "{screen}");
    assert!(screen.contains("120 simulated visitors"), "{screen}");
    assert!(screen.contains(&format!("{}/docs with the key {ADMIN_KEY}", demo.private)), "{screen}");
    let documents = Client::new(demo.private).get("/docs").expect("an answer");
    assert!(documents.status == 200 && documents.text().contains("total_active_users"), "{documents:?}");
    let metrics = Client::new(demo.private).get("/metrics").expect("an answer");
    assert!(metrics.text().contains("anteroom_room_waiting{room=\"shop\"}"), "{metrics:?}");
    let line = wait_for("figures of a line", TIMEOUT, || {
        demo.figure_lines().pop().filter(|line| number_after(line, "| line ") > 50)
    });
    assert!(line.chars().count() < SCREEN.1, "{line}");
    assert_eq!(number_after(&line, " of "), 18, "{line}");
    let last = demo.end();
    assert!(last.starts_with("Ended after ") && last.ends_with(" of 18 inside at once."), "{last}");
}

#[test]
fn a_hang_up_ends_it_as_ctrl_c_does() {
    let demo = Demo::start(&["--visitors", "0"]);
    wait_until("figures", TIMEOUT, || !demo.figure_lines().is_empty());
    let last = demo.end_by("HUP");
    assert!(last.starts_with("Ended after "), "{last}");
}

#[test]
fn a_line_builds_up_and_moves_and_a_person_who_waits_gets_in_buys_and_frees_the_place() {
    let demo = Demo::start(&["--visitors", "40"]);
    wait_until("a line has built up", TIMEOUT, || demo.figures().waiting > 25);
    let mut person = Browser::new(demo.public);
    let answer = person.open("/");
    assert!(!answer.is_from_site(), "newcomers stand in line: {answer:?}");
    let standing = |person: &mut Browser| person.fetch("/.anteroom/line?room=shop").json();
    let first = wait_for("a place", TIMEOUT, || {
        person.open("/");
        Some(standing(&mut person)).filter(|standing| standing["status"] == "waiting")
    });
    let position = first["position"].as_u64().expect("a position");
    let (mut ahead, mut serving) = (first["people_ahead"].as_u64().expect("people ahead"), 0);
    assert!(ahead > 10, "{first}");
    // The visitor sees the line move, in order, and is not passed over: those who are served stand before them.
    wait_until("the turn", TIMEOUT, || {
        let figures = demo.figures();
        assert!(figures.serving >= serving, "the line moved back: {figures:?}");
        serving = figures.serving;
        let standing = standing(&mut person);
        if standing["status"] == "active" {
            return true;
        }
        assert_eq!((&standing["status"], &standing["position"]), (&json!("waiting"), &json!(position)));
        let now_ahead = standing["people_ahead"].as_u64().expect("people ahead");
        assert!(now_ahead <= ahead, "{ahead}: {standing}");
        ahead = now_ahead;
        false
    });
    assert!(demo.figures().serving >= position);
    let inside = person.enter("/", Asking::Every(Duration::from_millis(100)), TIMEOUT);
    assert!(inside.text().contains("You are inside. Visitors at the moment: <strong>"), "{}", inside.text());
    assert!(has_leave_form(&inside), "{}", inside.text());
    let look = person.open("/search?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E%22");
    assert!(look.text().contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{}", look.text());
    assert!(!look.text().contains("<script"), "what was typed stays text: {}", look.text());
    let bought_before = demo.figures().completed;
    let bought = person.post("/checkout", "product=balcony");
    assert!(bought.is_from_site() && bought.text().contains("Balcony"), "{}", bought.text());
    assert_eq!(bought.header("anteroom-session"), None, "what the shop says about visits is for the gateway");
    assert!(!has_leave_form(&bought), "there is nothing left to leave: {}", bought.text());
    wait_until("the visit is over", TIMEOUT, || demo.figures().completed > bought_before);
    assert!(!person.open("/").is_from_site(), "a visitor who has bought stands in line again");
    assert!(demo.counted_by_the_shop("most_inside") <= 6);
    demo.end();
}

/// Whether a page of the shop offers to leave it.
fn has_leave_form(page: &Answer) -> bool {
    page.text().contains("action=\"/leave\"")
}

#[test]
fn a_thousand_visitors_never_fill_more_places_than_there_are_and_the_figures_are_the_boards() {
    let demo = Demo::start(&["--visitors", "1000"]);
    let began = demo.figures();
    assert_eq!(began.capacity, 157);
    wait_until("a line has built up", TIMEOUT, || demo.figures().waiting > 600);
    let before = demo.figures();
    let known = demo.figure_lines().len();
    let mut shop = Client::new(demo.shop);
    let line = wait_for("two more lines of figures", TIMEOUT, || {
        // Both count: the server, and the shop for itself.
        demo.figures();
        let counted = shop.get("/inside").expect("an answer").json();
        assert!(counted["inside"].as_u64() <= Some(157), "{counted}");
        demo.figure_lines().get(known + 1).cloned()
    });
    let after = demo.figures();
    assert!(after.claimed > before.claimed && after.serving > before.serving, "{before:?} {after:?}");
    let printed_count = number_after(&line, "bought ");
    assert!((before.completed..=after.completed).contains(&printed_count), "{before:?} {line} {after:?}");
    let printed_count = number_after(&line, "inside ");
    assert!(printed_count <= 157, "{line}");
    let board = Client::new(demo.public).get("/.anteroom/rooms/shop").expect("an answer").json();
    let later = demo.figures();
    let serving = board["serving"].as_u64().expect("a figure");
    assert!((after.serving..=later.serving).contains(&serving), "{after:?} {board} {later:?}");
    assert!(demo.counted_by_the_shop("most_inside") <= 157);
    let last = demo.end();
    assert!(number_after(&last, "s: ") >= after.claimed, "{last} {after:?}");
    assert!(number_after(&last, "never more than ") <= 157, "{last}");
}

/// What an answer has under a name.
#[track_caller]
fn text<'answer>(answer: &'answer Value, name: &str) -> &'answer str {
    answer[name].as_str().unwrap_or_else(|| panic!("no {name}: {answer}"))
}

/// A visitor's call of the public API.
fn visitor_posts(demo: &Demo, path: &str, body: &Value) -> Value {
    Client::new(demo.public).post(&format!("/.anteroom{path}"), body).expect("an answer").json()
}

/// What looks like a pass of the shop's room and is none: what is shown in `Authorization`.
fn forgeries(demo: &Demo, pass: &Value) -> Vec<String> {
    let good = text(pass, "access_token");
    // A pass of the other room is signed by the same key.
    let sample = visitor_posts(demo, "/join", &json!({ "room": "Sample" }));
    let increment = json!({ "event_id": "Sample", "increment_by": 1 });
    assert_eq!(
        demo.operator().post("/increment_serving_counter", &increment).expect("an answer").status,
        200
    );
    let other_room = visitor_posts(demo, "/claim", &json!({ "ticket": sample["ticket"] }));
    let mut flipped = good.to_owned().into_bytes();
    let in_the_signature = flipped.len() - 20;
    flipped[in_the_signature] = if flipped[in_the_signature] == b'A' { b'B' } else { b'A' };
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", good.split('.').nth(1).expect("claims"));
    let tokens = [
        text(&other_room, "access_token").to_owned(),
        String::from_utf8(flipped).expect("text"),
        unsigned,
        text(pass, "refresh_token").to_owned(),
        text(pass, "id_token").to_owned(),
        "x".to_owned(),
        String::new(),
    ];
    let credentials = tokens.iter().map(|token| format!("Bearer {token}"));
    credentials.chain(["Basic eDp5".to_owned(), good.to_owned()]).collect()
}

#[test]
fn the_shops_api_refuses_calls_without_a_good_pass_and_serves_those_with_one() {
    let demo = Demo::start(&["--visitors", "0"]);
    let mut shop = Client::new(demo.shop);
    let mut call = |method: &str, path: &str, authorization: Option<&str>, body: &str| {
        let request = Request::new(method, path).header("Content-Type", "application/json").body(body);
        let request =
            authorization.map_or(request.clone(), |credentials| request.header("Authorization", credentials));
        shop.send(&request).expect("an answer")
    };
    for (method, path) in [("GET", "/api/search?q=row"), ("POST", "/api/checkout"), ("GET", "/api/nothing")] {
        let refused = call(method, path, None, "");
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(
            refused.header("WWW-Authenticate").is_some() && refused.error().contains("pass"),
            "{refused:?}"
        );
    }
    let pass = visitor_posts(&demo, "/join", &json!({ "room": "shop" }));
    assert_eq!(pass["status"], "admitted", "nobody waits, so the pass comes at once: {pass}");
    let good = format!("Bearer {}", text(&pass, "access_token"));
    for forgery in forgeries(&demo, &pass) {
        let refused = call("GET", "/api/search", Some(&forgery), "");
        assert_eq!(refused.status, 401, "{forgery}: {refused:?}");
    }
    let found = call("GET", "/api/search?q=whisper", Some(&good), "");
    assert_eq!(found.json()["found"][0]["name"], "box", "{found:?}");
    for (body, status) in [("{\"product\":\"elephant\"}", 400), ("nonsense", 400), ("", 400)] {
        assert_eq!(call("POST", "/api/checkout", Some(&good), body).status, status, "{body}");
    }
    assert_eq!(call("POST", "/api/search", Some(&good), "").status, 405);
    assert_eq!(demo.figures().active, 1, "a call that is refused ends nothing");
    let bought = call("POST", "/api/checkout", Some(&good), "{\"product\":\"box\"}");
    assert_eq!((bought.status, &bought.json()["visit"]), (200, &json!("completed")), "{bought:?}");
    let figures = demo.figures();
    assert_eq!((figures.active, figures.completed), (0, 1), "the place is free");
    for (method, path) in [("GET", "/api/search"), ("POST", "/api/checkout")] {
        let over = call(method, path, Some(&good), "{\"product\":\"box\"}");
        assert_eq!(over.status, 401, "the pass is used: {over:?}");
    }
    // A pass that runs out in a second.
    let place = visitor_posts(&demo, "/assign_queue_num", &json!({ "event_id": "shop" }));
    let short = json!({ "event_id": "shop", "request_id": place["api_request_id"], "validity_period": 1 });
    let short = demo.operator().post("/generate_token", &short).unwrap().json();
    let short = format!("Bearer {}", text(&short, "access_token"));
    wait_until("the pass has run out", TIMEOUT, || {
        let answer = call("GET", "/api/search", Some(&short), "");
        answer.status == 401 && answer.error().contains("run out")
    });
    demo.end();
}

#[test]
fn by_the_back_door_there_is_no_visit_to_end_and_no_premiere_without_a_pass() {
    let demo = Demo::start(&["--visitors", "0"]);
    let mut shop = Client::new(demo.shop);
    let mut get = |path: &str, cookie: &str| {
        shop.send(&Request::new("GET", path).header("Cookie", cookie)).expect("an answer")
    };
    let front = get("/", "");
    assert!(front.text().contains("back door") && !has_leave_form(&front), "{}", front.text());
    // A pass of another room, which the same key has signed.
    let pass = visitor_posts(&demo, "/join", &json!({ "room": "shop" }));
    let other_room = format!("premiere-pass={}", text(&pass, "access_token"));
    let asked = [
        ("/premiere", ""),
        ("/premiere", "premiere-pass=x"),
        ("/premiere", &*other_room),
        ("/premiere?anteroom_code=x", ""),
    ];
    let waiting_page =
        format!("http://{}/.anteroom/wait/Premiere?return=http://{}/premiere", demo.public, demo.shop);
    for (path, cookie) in asked {
        let sent = get(path, cookie);
        assert_eq!((sent.status, sent.header("Location")), (303, Some(&*waiting_page)), "{path} {cookie}");
    }
    let bought = Browser::new(demo.shop).post("/checkout", "product=box");
    assert!(bought.text().contains("no visit to end") && !has_leave_form(&bought), "{}", bought.text());
    assert_eq!(Browser::new(demo.shop).post("/leave", "").status, 405);
    assert_eq!(demo.figures().completed, 0, "nobody's visit is over");
    demo.end();
}

/// A client that keeps no cookie once had a place for half a minute.
#[test]
fn a_client_without_cookies_has_no_place_in_the_shop() {
    let demo = Demo::start(&["--visitors", "0"]);
    for _ in 0..3 {
        let answer = Browser::new(demo.public).open_once("/");
        assert_eq!(answer.status, 303, "{answer:?}");
        assert_eq!((demo.figures().active, demo.counted_by_the_shop("inside")), (0, 0));
    }
    assert!(Browser::new(demo.public).open("/").is_from_site(), "the place is free");
    assert_eq!((demo.figures().active, demo.counted_by_the_shop("most_inside")), (1, 1));
    let last = demo.end();
    assert!(last.ends_with("never more than 1 of 1 inside at once."), "{last}");
}

#[test]
fn bad_values_are_refused_with_a_hint_and_nothing_starts() {
    let run = |arguments: &[&str], address: Option<&str>| {
        let temporary = tempfile::tempdir().unwrap();
        let mut builder = builder(temporary.path());
        if let Some(address) = address {
            builder = builder.env("ANTEROOM_PUBLIC_ADDR", address);
        }
        let ended =
            arguments.iter().fold(builder, |builder, word| builder.argument(*word)).run_to_end().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?} {address:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
        ended.stderr
    };
    for number in ["20001", "-1", "18446744073709551616", "-9223372036854775809"] {
        for arguments in [vec!["--visitors", number], vec![&*format!("--visitors={number}")]] {
            let refused = run(&arguments, None);
            let ours = format!("--visitors {number}: the demo has 0 to 20000");
            assert!(refused.contains(&ours) && refused.contains("hint: "), "{refused}");
        }
    }
    for bad in ["--visitors=many", "--visitors=1.5", "--visitors="] {
        let refused = run(&[bad], None);
        assert!(refused.contains("--visitors <N>") && refused.contains("--help"), "{refused}");
    }
    for elsewhere in ["0.0.0.0:0", "192.0.2.1:8080", "nonsense"] {
        let refused = run(&[], Some(elsewhere));
        assert!(refused.contains("this machine only") && refused.contains("hint: "), "{refused}");
    }
}

/// The indented lines, which are for a shell; the others are for the reader.
fn script(demo: &Server) -> String {
    let printed = first_screen(demo);
    let commands: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    commands.join("\n")
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let tried = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|status| status.success())
}

/// What the script prints, line by line.
fn run_in_bash(script: &str) -> Vec<Value> {
    // A proxy of the machine that runs the tests is not part of the demo.
    let mut bash = Command::new("bash");
    let ran = bash.args(["-euo", "pipefail", "-c", script]).env("NO_PROXY", "*").env("no_proxy", "*");
    let output = ran.stdin(Stdio::null()).output().expect("bash can be run");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{script}\n{stdout}\n{stderr}");
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    stdout.lines().map(read).collect()
}

/// Without simulated visitors the first who comes is in, as the first screen says, and the second stands in line until the first leaves.
fn assert_the_shop_takes_one(public: SocketAddr) {
    let [mut first, mut second] = [Browser::new(public), Browser::new(public)];
    let page = first.open("/");
    assert!(page.is_from_site(), "{page:?}");
    assert!(page.text().contains("Visitors at the moment: <strong>1</strong>."), "{}", page.text());
    for _ in 0..2 {
        assert!(!second.open("/").is_from_site(), "the second one stands in line");
    }
    let left = first.post("/leave", "");
    assert!(left.text().contains("Goodbye") && !has_leave_form(&left), "{}", left.text());
    second.enter("/", Asking::Every(Duration::from_millis(100)), TIMEOUT);
    assert!(!first.open("/").is_from_site(), "a visitor who has left stands in line again");
}

/// Two Ctrl-C while a request is under way: the demo ends at once, and used to leave its directory behind.
fn interrupted_twice_leaves_nothing(mut demo: Server, public: SocketAddr) {
    let mut under_way = Wire::connect(public, TIMEOUT).expect("a connection");
    under_way.write(b"POST /.anteroom/assign_queue_num HTTP/1.1\r\nHost: demo\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n").expect("it is sent");
    under_way.read_answer().expect("the demo waits for the body");
    demo.signal("INT").expect("a signal");
    wait_until("it finishes what is under way", TIMEOUT, || {
        demo.stderr().contains("once more to stop at once")
    });
    demo.signal("INT").expect("a signal");
    let ended = demo.wait_for_end().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
}

/// The blocks for a shell that are about a running demo, of the README and of the page that goes on from there, with the addresses of
/// this one.
fn blocks_of_the_readme(demo: &Demo) -> Vec<String> {
    let pages = ["README.md", "docs/getting-started.md"]
        .map(|name| fs::read_to_string(workspace_root().join(name)).expect("the page is there"));
    let pages = pages.concat();
    let blocks =
        pages.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block);
    let about_the_demo = blocks.filter(|block| {
        ["127.0.0.1:8080/.anteroom", "$A/", "ANTEROOM_URL=http"].iter().any(|sign| block.contains(sign))
    });
    let usual = ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"];
    let here = [demo.public, demo.private, demo.shop].map(|address| address.to_string());
    let moved = |block: &str| {
        usual.iter().zip(&here).fold(block.to_owned(), |block, (from, to)| block.replace(from, to))
    };
    about_the_demo.map(moved).collect()
}

#[test]
fn the_readmes_blocks_about_the_demo_run_as_they_stand() {
    if !require("curl", has("curl")) || !require("bash", has("bash")) {
        return;
    }
    let demo = Demo::start(&["--visitors", "0"]);
    let blocks = blocks_of_the_readme(&demo);
    assert_eq!(blocks.len(), 6, "{blocks:?}");
    let directory = tempfile::tempdir().unwrap();
    let release = directory.path().join("target/release");
    fs::create_dir_all(&release).unwrap();
    std::os::unix::fs::symlink(binary(), release.join("anteroom")).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &blocks.join("\n")]).current_dir(directory.path());
    let output = bash.env("NO_PROXY", "*").env("no_proxy", "*").stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !stderr.contains("error:"), "{blocks:#?}\n{stdout}\n{stderr}");
    // The site has exchanged the code, the shop was paid, AWS's walk and ours went through, a backup came back.
    let mut rest = &*stdout;
    let expected = [
        "\"id\":\"Door\"",
        "\"access_token\":",
        "No pass",
        "\"found\":",
        "\"visit\":\"completed\"",
        "\"queue_number\":1",
        "\"active_tokens\":1",
        "Counters reset",
        "anteroom_room_waiting",
        "event: board",
        "\"status\":\"left\"",
        "#not-found",
        "Shop",
    ];
    for words in expected {
        rest = rest
            .split_once(words)
            .unwrap_or_else(|| panic!("no {words} in what follows:\n{rest}\n{stdout}"))
            .1;
    }
    demo.end();
}

#[test]
fn two_demos_side_by_side_do_what_their_scripts_say_and_leave_nothing_behind() {
    if !require("curl", has("curl")) || !require("bash", has("bash")) {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut demos = Vec::new();
    let mut addresses = Vec::new();
    // The second one finds the preferred ports taken, at the latest by the first one.
    for _ in 0..2 {
        let builder = builder(temporary.path())
            .without_env("ANTEROOM_PUBLIC_ADDR")
            .without_env("ANTEROOM_PRIVATE_ADDR");
        let builder = builder.argument("--visitors").argument("0").argument("--api");
        let demo = builder.start_without_waiting().expect("the demo starts");
        let script = script(&demo);
        let public = address_after(&script, "P=");
        addresses.push(public);
        let printed = run_in_bash(&script);
        assert_eq!(printed.len(), 9, "{printed:?}");
        // The comments of the script, in their order.
        assert_eq!(printed[0]["queue_number"], 1, "its number: 1");
        assert_eq!(printed[1]["serving_counter"], 0, "who is being served: nobody yet");
        assert_eq!(printed[2]["error"], "Request ID not being served yet", "too early");
        assert_eq!(printed[3]["serving_num"], 100, "let 100 in");
        let pass = &printed[4];
        for name in ["access_token", "refresh_token", "id_token"] {
            assert_eq!(pass[name].as_str().map(|token| token.split('.').count()), Some(3), "{name}: {pass}");
        }
        assert_eq!(printed[5]["kty"], "RSA", "the key that any JWT library checks them with");
        assert_eq!(printed[6]["active_tokens"], 1, "visitors inside");
        assert_eq!(printed[7]["found"][0]["name"], "stalls", "what the shop's API finds");
        assert_eq!(printed[8]["visit"], "completed", "the visit is over");
        assert!(first_screen(&demo).contains("waits until you\nbuy or leave."));
        assert_the_shop_takes_one(public);
        demos.push(demo);
    }
    assert_ne!(addresses[0], addresses[1], "each has addresses of its own");
    let second = first_screen(&demos[1]);
    assert!(second.contains("(Ports 8080 and 8081 and 8082 are taken"), "{second}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 2, "each has a directory of its own");
    interrupted_twice_leaves_nothing(demos.pop().unwrap(), addresses[1]);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "the other one is still there");
    for demo in &mut demos {
        let ended = demo.interrupt().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(!ended.stderr.contains("ERROR") && !ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
