//! Each check must be able to fail: runs that went wrong in exactly one way.

use super::super::ledger::{Ledger, Step};
use super::super::record::PlaceInLine;
use super::*;

fn at(microseconds: u64) -> Moment {
    Moment::from_microseconds(microseconds)
}

fn place(position: u64) -> PlaceInLine {
    PlaceInLine { generation: 0, position }
}

/// Ten visitors, one after the other: joined at 100, 200, …, admitted from 10,100 on.
fn good_records() -> Vec<Record> {
    (0..10)
        .map(|index| {
            let mut record = Record::new(index, at(index * 100));
            record.set_out = Some(at(index * 100));
            record.sent = Some(at(index * 100));
            record.answered = Some(at(index * 100 + 50));
            record.place = Some(place(index + 1));
            record.seen_served = Some(at(10_000 + index * 100));
            record.admitted = Some(at(10_000 + index * 100 + 50));
            record.outcome = Outcome::Admitted;
            record
        })
        .collect()
}

/// The frontier moved by one place each time just before its visitor looked.
fn good_let_out() -> FrontierSteps {
    let steps = (0..10).map(|index| (at(9_950 + index * 100), index + 1)).collect();
    FrontierSteps { start: 0, steps, alone: true }
}

fn good_ledger() -> Ledger {
    let ledger = Ledger::new();
    for index in 0..10 {
        ledger.record_polled_frontier(index + 1, at(9_960 + index * 100), at(10_000 + index * 100));
        ledger.record_answer(Step::ServingNum, 40);
    }
    ledger
}

fn judged(records: &[Record], ledger: &Ledger, let_out: Option<&FrontierSteps>) -> Vec<Check> {
    all(records, &ledger.close(), let_out, Duration::ZERO)
}

/// The names of what is red, and that each red check shows somebody.
fn red(checks: &[Check]) -> Vec<&'static str> {
    let red: Vec<&Check> = checks.iter().filter(|check| check.verdict == Verdict::Red).collect();
    assert!(red.iter().all(|check| check.offences > 0 && check.first_offender.is_some()), "{red:?}");
    assert_eq!(red.is_empty(), is_green(checks));
    red.iter().map(|check| check.name).collect()
}

fn check_of<'a>(checks: &'a [Check], names: (&str, &str)) -> &'a Check {
    checks.iter().find(|check| check.name == names.0).unwrap()
}

#[test]
fn a_run_without_fault_is_green_and_everything_was_looked_at() {
    let mut records = good_records();
    records[3].pass_again = Repetition::Same;
    records[3].place_again = Repetition::Same;
    let checks = judged(&records, &good_ledger(), Some(&good_let_out()));
    assert_eq!(red(&checks), Vec::<&str>::new());
    let judged: Vec<u64> = checks.iter().map(|check| check.judged).collect();
    assert_eq!(judged, [10, 10, 10, 10, 1, 1, 10, 10]);
}

#[test]
fn a_duplicate_position_is_red() {
    let mut records = good_records();
    records[7].place = Some(place(7));
    // The eighth visitor took the seventh's place long after it: only the duplicate is wrong.
    let checks = judged(&records, &good_ledger(), None);
    assert_eq!(red(&checks), [NO_DUPLICATE.0]);
    let offender = check_of(&checks, NO_DUPLICATE).first_offender.clone().unwrap();
    assert_eq!(offender, "visitors 6 and 7 both hold place 7");
}

#[test]
fn a_later_join_with_a_smaller_position_is_red_unless_they_overlapped() {
    let mut records = good_records();
    (records[4].place, records[5].place) = (Some(place(6)), Some(place(5)));
    (records[4].admitted, records[5].admitted) = (records[5].admitted, records[4].admitted);
    let checks = judged(&records, &good_ledger(), Some(&good_let_out()));
    assert_eq!(red(&checks), [ORDER_KEPT.0]);
    let offender = check_of(&checks, ORDER_KEPT).first_offender.clone().unwrap();
    assert_eq!(offender, "visitor 4 was answered place 6 before visitor 5 asked, who got place 5");

    // Answered only when the other had been sent: either order is right.
    records[4].answered = records[5].sent;
    assert_eq!(red(&judged(&records, &good_ledger(), Some(&good_let_out()))), Vec::<&str>::new());
}

#[test]
fn the_order_check_agrees_with_the_definition() {
    use super::super::random::Random;
    for case in 0..300 {
        let mut random = Random::of_visitor(5, case);
        let records: Vec<Record> = (0..random.one_to(30))
            .map(|index| {
                let mut record = Record::new(index, at(0));
                let sent = random.one_to(100);
                record.sent = Some(at(sent));
                record.answered = Some(at(sent + random.one_to(60)));
                record.place = Some(place(random.one_to(40) + sent / 4));
                record
            })
            .collect();
        let offends = |record: &&Record| {
            records.iter().any(|other| other.answered < record.sent && other.place > record.place)
        };
        let expected = records.iter().filter(offends).count() as u64;
        assert_eq!(order_kept(&records).offences, expected, "{records:?}");
    }
}

#[test]
fn a_pass_before_the_line_was_moved_there_is_red() {
    let mut records = good_records();
    // The tenth visitor was let in while the frontier stood at 5.
    records[9].admitted = Some(at(10_400));
    let only_operator = good_let_out();
    // Nobody read the frontier: the operator's own steps are the proof.
    let checks = judged(&records, &Ledger::new(), Some(&only_operator));
    assert_eq!(red(&checks), [NOBODY_EARLY.0]);
    assert!(
        check_of(&checks, NOBODY_EARLY).first_offender.as_ref().unwrap().contains("visitor 9 with place 10")
    );
    // Another operator moves the line: what others were told afterwards is the proof.
    let checks = judged(&records, &good_ledger(), None);
    assert_eq!(red(&checks), [NOBODY_EARLY.0]);
    // Where others move it too, the operator's own steps are no proof.
    let not_alone = FrontierSteps { alone: false, ..only_operator };
    assert_eq!(red(&judged(&records, &Ledger::new(), Some(&not_alone))), Vec::<&str>::new());
}

#[test]
fn a_reading_that_was_under_way_accuses_nobody() {
    let records = good_records();
    let ledger = good_ledger();
    // Asked before the tenth was admitted, answered long after, with a low number: it was read when it was asked.
    ledger.record_polled_frontier(9, at(10_900), at(20_000));
    assert_eq!(red(&judged(&records, &ledger, None)), Vec::<&str>::new());
    // Asked a moment after: now it is a proof, of a frontier that went back or of an early pass.
    let ledger = good_ledger();
    ledger.record_polled_frontier(9, at(10_951), at(10_960));
    let checks = judged(&records, &ledger, None);
    assert_eq!(red(&checks), [FRONTIER_FORWARD.0]);
    assert!(matches!(check_of(&checks, NOBODY_EARLY).verdict, Verdict::NotJudged(_)));
    // Unless figures may be old.
    let ledger = good_ledger();
    ledger.record_polled_frontier(9, at(10_951), at(10_960));
    let checks = all(&records, &ledger.close(), None, Duration::from_millis(1));
    assert_eq!(red(&checks), Vec::<&str>::new());
}

#[test]
fn two_generations_in_one_run_are_not_judged_for_early_admission() {
    let mut records = good_records();
    records[9].place = Some(PlaceInLine { generation: 1, position: 1 });
    let checks = judged(&records, &good_ledger(), Some(&good_let_out()));
    assert_eq!(red(&checks), Vec::<&str>::new());
    assert!(matches!(check_of(&checks, NOBODY_EARLY).verdict, Verdict::NotJudged(_)));
}

#[test]
fn another_place_or_another_pass_the_second_time_is_red() {
    let mut records = good_records();
    records[2].place_again = Repetition::Different("first 3, then 4".to_owned());
    assert_eq!(red(&judged(&records, &good_ledger(), None)), [PLACE_STAYS.0]);
    let mut records = good_records();
    records[2].pass_again = Repetition::Different("the id_token is another one".to_owned());
    assert_eq!(red(&judged(&records, &good_ledger(), None)), [PASS_STAYS.0]);
}

#[test]
fn an_unexpected_answer_is_red() {
    let ledger = good_ledger();
    ledger.record_unexpected(Step::ServingNum, 500, b"{\"error\": \"oops\"}");
    let checks = judged(&good_records(), &ledger, None);
    assert_eq!(red(&checks), [NO_SURPRISE.0]);
    let offender = check_of(&checks, NO_SURPRISE).first_offender.clone().unwrap();
    assert_eq!(offender, "serving_num: 500 {\"error\": \"oops\"}");
}

#[test]
fn giving_up_or_still_waiting_is_red_and_leaving_or_being_refused_is_not() {
    let mut records = good_records();
    records[0].outcome = Outcome::Left;
    records[1].outcome = Outcome::Refused("410 place-gone".to_owned());
    assert_eq!(red(&judged(&records, &good_ledger(), None)), Vec::<&str>::new());
    records[1].outcome = Outcome::Unfinished;
    records[2].outcome = Outcome::GaveUp("connection refused".to_owned());
    let checks = judged(&records, &good_ledger(), None);
    assert_eq!(red(&checks), [ALL_ENDED.0]);
    assert_eq!(check_of(&checks, ALL_ENDED).offences, 2);
}
