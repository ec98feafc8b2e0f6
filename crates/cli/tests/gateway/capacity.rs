//! "Capacity 50, 2,000 clients at once over real connections: the origin never sees more than 50 live sessions; everybody is served
//! in order; 1,000 cookieless requests do not lock ten real visitors out."

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anteroom_testkit::{
    Asking, Browser, NAVIGATION, Prng, Request, SetOnDrop, Site, full, now, pause, wait_until,
};

use crate::stand::{SOON, Stand, TIMEOUT, hall};
use crate::support::metrics::metric;

/// How long everybody together may take: many times what they need.
const CROWD_DEADLINE: Duration = Duration::from_mins(8);
/// How long one answer may take while thousands are asked for.
const ANSWER_MAX: Duration = Duration::from_mins(2);
/// Threads that only wait for answers need little.
const STACK_BYTES: usize = 256 * 1024;
/// How many addresses a flood comes from.
const FLOOD_ADDRESSES: usize = 100;
/// How long real visitors may take to come in, however many clients without cookies there are.
const ENTRY_MAX: Duration = Duration::from_secs(35);

/// When one visitor asked, and what they got.
#[derive(Debug)]
struct VisitRecord {
    /// The number in line, if the page showed one.
    position: Option<u64>,
    /// When the last request was sent that was answered with the waiting page.
    last_asked_in_vain: Option<Instant>,
    /// When the site's first answer was there.
    let_in: Instant,
}

struct Sizes {
    capacity: usize,
    visitors: usize,
    /// How often somebody who waits asks.
    asking: Asking,
}

fn sizes() -> Sizes {
    let (capacity, visitors, millis) = if full() { (50, 2_000, 1_500) } else { (20, 300, 300) };
    Sizes { capacity, visitors, asking: Asking::Every(Duration::from_millis(millis)) }
}

/// One visitor: comes with all others, waits, looks around, buys, goes.
fn visit(stand: &Stand, sizes: &Sizes, number: usize, together: &Barrier) -> VisitRecord {
    let mut browser = stand.browser().with_read_timeout(ANSWER_MAX);
    let mut chance = Prng::from_seed_and_stream(20_261_116, u64::try_from(number).expect("a small number"));
    together.wait();
    let start = now();
    let (mut position, mut last_asked_in_vain) = (None, None);
    loop {
        let asked = now();
        let answer = browser.open("/");
        if answer.is_from_site() {
            break;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        if let Some(shown) = answer.shown_position() {
            assert!(
                position.is_none_or(|before| before == shown),
                "a place that changes: {position:?} {shown}"
            );
            position = Some(shown);
            last_asked_in_vain = Some(asked);
        }
        assert!(start.elapsed() < CROWD_DEADLINE, "number {position:?} in vain: {answer:?}");
        // The first page asks again at once.
        if position.is_some() {
            answer.wait_before_asking_again(sizes.asking);
        }
    }
    let let_in = now();
    // Nobody leaves before it was full once, so that it is known to have been.
    wait_until("the site is full", CROWD_DEADLINE, || stand.site.live_visits_max() >= sizes.capacity);
    for _ in 0..chance.below(4) {
        assert!(browser.open("/look").is_from_site());
        pause();
    }
    let done = browser.open("/complete");
    assert!(done.is_from_site() && done.header("Anteroom-Session").is_none(), "{done:?}");
    VisitRecord { position, last_asked_in_vain, let_in }
}

/// Nobody was told to wait after a visitor behind them was in.
fn assert_served_in_order(records: &[VisitRecord]) {
    let mut placed: Vec<(u64, &VisitRecord)> =
        records.iter().filter_map(|record| Some((record.position?, record))).collect();
    placed.sort_by_key(|(position, _)| *position);
    assert!(placed.windows(2).all(|two| two[0].0 != two[1].0), "two share a place");
    let mut first_in_behind: Option<Instant> = None;
    for (position, record) in placed.iter().rev() {
        if let (Some(behind), Some(asked)) = (first_in_behind, record.last_asked_in_vain) {
            assert!(asked < behind, "number {position} had to wait when a visitor behind them was in");
        }
        first_in_behind = Some(first_in_behind.map_or(record.let_in, |first| first.min(record.let_in)));
    }
}

#[test]
fn a_crowd_at_once_is_served_in_order_and_never_more_than_the_capacity() {
    let sizes = sizes();
    let stand = Stand::open(sizes.capacity, "");
    let together = Barrier::new(sizes.visitors);
    let records: Vec<VisitRecord> = thread::scope(|scope| {
        let visitors = (0..sizes.visitors).map(|number| {
            let (stand, sizes, together) = (&stand, &sizes, &together);
            let visitor = thread::Builder::new().stack_size(STACK_BYTES);
            let visits = move || visit(stand, sizes, number, together);
            visitor.spawn_scoped(scope, visits).expect("a thread can be started")
        });
        let visitors: Vec<_> = visitors.collect();
        visitors.into_iter().map(|visitor| visitor.join().expect("every visitor is served")).collect()
    });
    assert_eq!(stand.site.live_visits_max(), sizes.capacity, "full, and never more");
    assert_eq!(stand.site.visits().len(), sizes.visitors, "everybody was in, once");
    assert_eq!(stand.site.after_the_end(), Vec::<String>::new());
    assert_eq!(stand.site.live_visits(), 0);
    let waited = records.iter().filter(|record| record.position.is_some()).count();
    assert!(waited >= sizes.visitors - sizes.capacity, "only {waited} stood in line");
    assert_served_in_order(&records);
    stand.wait_for_figure("active", 0);
    let completed = u64::try_from(sizes.visitors).expect("a small number");
    assert_eq!((stand.figure("completed"), stand.figure("expired")), (completed, 0));
    assert_eq!((stand.figure("waiting"), stand.figure("lapsed")), (0, 0));
    assert!(!stand.server.stderr().contains("panicked"));
}

/// Opens pages without keeping a cookie, each time over a connection of its own, until it is over: from one of many addresses, which
/// the limiter counts, and one page after the other.
fn keep_coming_without_cookies(
    stand: &Stand,
    number: usize,
    together: &Barrier,
    over: &AtomicBool,
    answered: &AtomicUsize,
) {
    let address = format!("203.0.113.{}", number % FLOOD_ADDRESSES);
    together.wait();
    for page in 0.. {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let target = if page % 2 == 0 { "/".to_owned() } else { format!("/page/{page}?of={number}") };
        let request = Request::new("GET", &target).header("X-Forwarded-For", &address);
        let request = NAVIGATION.iter().fold(request, |request, (name, value)| request.header(name, value));
        let mut browser = Browser::new(stand.server.public()).with_read_timeout(ANSWER_MAX);
        let answer = browser.send(request);
        assert_eq!(answer.status, 303, "no cookie, no place: {answer:?}");
        answered.fetch_add(1, Ordering::SeqCst);
        answer.wait_before_asking_again(Asking::Every(Duration::from_secs(2)));
    }
}

#[test]
fn a_flood_without_cookies_does_not_lock_real_visitors_out() {
    const REAL: usize = 10;
    let (capacity, flood) = if full() { (50, 1_000) } else { (20, 150) };
    let limited = "limits_exempt = \"none\"\ntrusted_proxies = \"127.0.0.1\"\n";
    let stand = Stand::configured(&format!("{limited}{}", hall("ORIGIN", capacity, "")));
    let (together, over, answered) = (Barrier::new(flood + 1), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _end = SetOnDrop(&over);
        for number in 0..flood {
            let cookieless = thread::Builder::new().stack_size(STACK_BYTES);
            let (stand, together, over, answered) = (&stand, &together, &over, &answered);
            let floods = move || keep_coming_without_cookies(stand, number, together, over, answered);
            cookieless.spawn_scoped(scope, floods).expect("a thread can be started");
        }
        together.wait();
        wait_until("everybody has come once", TIMEOUT, || answered.load(Ordering::SeqCst) >= flood);
        let real: Vec<_> = (0..REAL)
            .map(|_| {
                scope.spawn(|| {
                    let mut browser = stand.browser().with_read_timeout(ANSWER_MAX);
                    browser.enter("/real", SOON, ENTRY_MAX);
                    assert!(browser.open("/real/more").is_from_site());
                })
            })
            .collect();
        for visitor in real {
            visitor.join().expect("a real visitor gets in");
        }
    });
    // Each who came in was charged a join, and the flood none: it was redirected and got nothing else.
    let charged =
        metric(&stand.server, "anteroom_limiter_decisions_total{policy=\"join\",decision=\"allowed\"}");
    assert_eq!(charged, REAL as u64, "one join for each who came in");
    let real = real_visits(&stand.site);
    assert_eq!(real, REAL, "each of them had a visit");
    assert_eq!(stand.site.visits().len(), REAL, "and nobody else");
    assert_eq!(stand.figure("joined"), REAL as u64, "nor did anybody else get a place");
}

/// How many visits asked for what only real visitors ask for.
fn real_visits(site: &Site) -> usize {
    let mut visits: Vec<_> = site
        .request_log()
        .into_iter()
        .filter(|seen| seen.path() == "/real/more")
        .filter_map(|seen| seen.visit())
        .collect();
    visits.sort();
    visits.dedup();
    visits.len()
}

/// Many short visits one after the other: each slot is free again at once, however many visits have ended in the last seconds.
#[test]
fn slots_come_back_however_many_visits_end_in_a_moment() {
    const VISITS: usize = 1_500;
    const AT_ONCE: usize = 8;
    let stand = Stand::open(AT_ONCE, "");
    let begun = AtomicUsize::new(0);
    let start = now();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let mut browser = stand.browser();
                while begun.fetch_add(1, Ordering::SeqCst) < VISITS {
                    browser.enter("/", Asking::Every(Duration::from_millis(5)), TIMEOUT);
                    assert!(browser.open("/complete").is_from_site());
                }
            });
        }
    });
    println!("{VISITS} visits in {:?}", start.elapsed());
    assert_eq!(stand.site.visits().len(), VISITS);
    assert!(stand.site.live_visits_max() <= AT_ONCE);
    stand.wait_for_figure("active", 0);
    assert_eq!(stand.figure("expired"), 0, "no slot was kept until its time was over");
}

#[test]
fn when_many_arrive_the_page_says_so_and_gets_in_line_by_itself() {
    /// More than take a place within a second of any machine, where one may.
    const ARRIVALS: usize = 100;
    let stand = Stand::open(1, "join_rate_max = 1");
    let mut inside = stand.inside();
    let refused = (0..ARRIVALS).find_map(|_| {
        let mut browser = stand.browser();
        // The first page brings the cookie, the second a place.
        let pages = [browser.open("/"), browser.open("/")];
        let refused = pages.into_iter().find(|page| page.situation().as_deref() == Some("many-arriving"));
        refused.map(|page| (browser, page))
    });
    let (mut browser, page) = refused.expect("the ceiling holds");
    assert_eq!(page.status, 429, "{page:?}");
    let seconds = page.refresh_seconds().expect("it asks again by itself");
    assert_eq!(page.header("Retry-After"), Some(seconds.to_string().as_str()));
    assert!(page.text().contains("Many people are arriving"), "{page:?}");
    wait_until("a place", TIMEOUT, || browser.open("/").shown_position().is_some());
    assert!(inside.open("/").is_from_site(), "and who is inside notices nothing");
}
