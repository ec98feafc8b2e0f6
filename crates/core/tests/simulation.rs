//! Whole sales, simulated on the very rules that run in production: how much of the origin's capacity each inlet uses, how good
//! the estimates are that visitors are told, and whether the adaptive law is stable. The tables and plots in
//! `docs/operating/choosing-an-inlet.md` are written by these tests, and compared with them on every run.
//!
//! Every sale also shows that nobody is let in too many: see `Sale::apply` and `Sale::enter`.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]
#![expect(clippy::print_stdout, reason = "figures of each sale, for runs with --nocapture")]

#[path = "simulation/adaptive.rs"]
mod adaptive;
#[path = "simulation/figures.rs"]
mod figures;
#[path = "simulation/origin.rs"]
mod origin;
#[path = "simulation/plot.rs"]
mod plot;
#[path = "simulation/random.rs"]
mod random;
#[path = "simulation/reference.rs"]
mod reference;
#[path = "simulation/sale.rs"]
mod sale;
#[path = "simulation/scenarios.rs"]
mod scenarios;

use anteroom_core::InletKind;
use figures::{Figures, percent};
use sale::{Change, MINUTE, Played, SECOND, START, play};
use scenarios::{DOORS_CLOSE_MILLIS, SLOTS, Setup, WARM_UP_MILLIS};

const DOCUMENT: &str = "operating/choosing-an-inlet.md";
/// Minutes that those wait who join, in the sales by which estimates are judged.
const LINES_MINUTES: [u64; 3] = [5, 20, 60];
/// What is written into the document comes of these.
const SEEDS: std::ops::Range<u64> = 0..2;
const SEEDS_FULL: std::ops::Range<u64> = 0..12;

fn is_full() -> bool {
    std::env::var_os("ANTEROOM_TEST_FULL").is_some()
}

/// Plays sales with lines of all lengths; returns the share of slot time used, and how good the estimates were.
fn judge(setup: &Setup, seeds: std::ops::Range<u64>) -> (u64, Figures) {
    let (mut used, mut sales, mut all) = (0, 0, Figures::default());
    for minutes in LINES_MINUTES {
        for seed in seeds.clone() {
            let played = play(&setup.with_a_line_of(minutes, seed));
            assert!(
                setup.settings.inlet == InletKind::Adaptive || played.most_inside <= SLOTS,
                "{}",
                setup.name
            );
            let figures = Figures::of(&played, WARM_UP_MILLIS, DOORS_CLOSE_MILLIS);
            println!(
                "{}, line of {minutes} min, seed {seed}: used {}, {} judged, waited {} min, p50 {}, p90 {}, p90/wait {}",
                setup.name,
                percent(played.used_thousandths),
                figures.judged,
                figures.wait_minutes(),
                percent(figures.p50_thousandths()),
                percent(figures.p90_thousandths()),
                figures.p90_over_wait_thousandths(),
            );
            assert_eq!(figures.untold, 0, "everybody is told how long it will take");
            all.add(&figures);
            used += played.used_thousandths;
            sales += 1;
        }
    }
    (used / sales, all)
}

fn row(setup: &Setup, used_thousandths: u64, figures: &Figures) -> String {
    let over = figures.p90_over_wait_thousandths();
    format!(
        "| {} | {} | {} | {} | {}.{:02} |",
        setup.name,
        percent(used_thousandths),
        percent(figures.p50_thousandths()),
        percent(figures.p90_thousandths()),
        over / 1000,
        over % 1000 / 10,
    )
}

/// Plays the sales of one row of the document's table, and holds its figures against what was promised.
fn assert_used_and_estimated(setup: &Setup) {
    let (used, figures) = judge(setup, SEEDS);
    if setup.settings.is_auction() {
        assert!(used >= 950, "{}: {used} of 1000", setup.name);
    }
    let (p50, p90) = (figures.p50_thousandths(), figures.p90_thousandths());
    assert!((850..=950).contains(&p90), "{}: p90 holds for {p90} of 1000", setup.name);
    assert!((400..=600).contains(&p50), "{}: p50 holds for {p50} of 1000", setup.name);
    reference::compare_row(DOCUMENT, &row(setup, used, &figures));
    if is_full() {
        let (_, figures) = judge(setup, SEEDS_FULL);
        let (p50, p90) = (figures.p50_thousandths(), figures.p90_thousandths());
        println!("{}: all seeds: p50 {p50}, p90 {p90}", setup.name);
        assert!((850..=950).contains(&p90), "{}: p90 holds for {p90} of 1000, all seeds", setup.name);
    }
}

#[test]
fn an_auction_by_reports_uses_its_slots_and_tells_how_long_it_takes() {
    assert_used_and_estimated(&scenarios::auction_by_reports());
}

#[test]
fn an_auction_by_capacity_uses_its_slots_and_tells_how_long_it_takes() {
    assert_used_and_estimated(&scenarios::auction_by_capacity());
}

#[test]
fn a_short_claim_window_loses_a_tenth_and_tells_how_long_it_takes() {
    assert_used_and_estimated(&scenarios::max_size("`max-size`, claim window 30 s", 30, 181));
}

#[test]
fn the_usual_claim_window_loses_more_and_tells_how_long_it_takes() {
    assert_used_and_estimated(&scenarios::max_size("`max-size`, claim window 120 s", 120, 142));
}

#[test]
fn a_long_claim_window_loses_most_and_tells_how_long_it_takes() {
    assert_used_and_estimated(&scenarios::max_size("`max-size`, claim window 900 s", 900, 50));
}

#[test]
fn an_adaptive_room_finds_its_capacity_and_tells_how_long_it_takes() {
    assert_used_and_estimated(&scenarios::adaptive());
}

#[test]
fn timetables_are_right_within_one_interval_for_everybody() {
    for (inlet, people, seconds) in
        [(InletKind::Periodic, 30, 10), (InletKind::Periodic, 180, 60), (InletKind::Window, 90, 30)]
    {
        let setup = scenarios::stepped(inlet, people, seconds);
        for minutes in [5, 20] {
            let played = play(&setup.with_a_line_of(minutes, 1));
            let judged = played.visitors.iter().filter_map(|one| {
                let waited = one.admitted_at?.since(one.joined_at);
                Some((waited, one.told?.p50_seconds * SECOND, one.told?.p90_seconds * SECOND))
            });
            let mut count = 0;
            for (waited, p50, p90) in judged {
                assert_eq!(p50, p90, "the timetable is known");
                let off = waited.abs_diff(p90);
                assert!(off <= seconds * SECOND, "{inlet:?}: told {p90}, waited {waited}");
                count += 1;
            }
            assert!(count > 10_000, "{inlet:?}: {count}");
        }
    }
}

/// Of those who joined in a minute, the middle one's wait, in hundredths of the median that was told.
fn wait_over_told_percent(played: &Played, minute: u64) -> u64 {
    let (from, to) = (START.plus(minute * MINUTE), START.plus((minute + 1) * MINUTE));
    let joined = played.visitors.iter().filter(|one| one.joined_at >= from && one.joined_at < to);
    let mut percents: Vec<u64> = joined
        .filter_map(|one| {
            let (waited, told) = (one.admitted_at?.since(one.joined_at), one.told?.p50_seconds * SECOND);
            Some(waited * 100 / told.max(1))
        })
        .collect();
    percents.sort_unstable();
    percents[percents.len() / 2]
}

#[test]
fn a_change_of_speed_is_learned_within_a_quarter_of_an_hour() {
    const CHANGE_MINUTE: u64 = 60;
    for (words, capacity) in [("doubled", 2 * SLOTS), ("halved", SLOTS / 2)] {
        let mut scenario = scenarios::max_size("`max-size`", 30, 181).with_a_line_of(60, 3);
        scenario.origin.slots = 2 * SLOTS;
        scenario.changes = vec![(CHANGE_MINUTE * MINUTE, Change::Capacity(capacity))];
        scenario.doors_close_millis = 90 * MINUTE;
        let played = play(&scenario);
        for after in [0, 2, 5, 10, 15, 20] {
            let percent = wait_over_told_percent(&played, CHANGE_MINUTE + after);
            println!("capacity {words}: who joins {after} minutes later waits {percent} % of what was told");
            if after >= 15 {
                assert!(
                    (85..=115).contains(&percent),
                    "capacity {words}, {after} minutes later: {percent} %"
                );
            }
        }
    }
}
