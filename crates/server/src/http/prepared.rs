//! The hottest answers as bytes, made once per board and sent to everybody.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use anteroom_core::{Board, RoomId};
use bytes::Bytes;
use http::HeaderValue;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::frontier::{self, PublicMove, PublicRound};
use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{
    DisciplineName, Generation, InletName, Moment, RoomName, RoomStateName, StandstillName,
};

/// An answer that only depends on the board.
#[derive(Debug, Clone)]
pub(crate) struct PreparedAnswer {
    pub(crate) body: Bytes,
    pub(crate) etag: HeaderValue,
}

impl PreparedAnswer {
    fn new(field: &str, value: u64) -> Self {
        // The tag is the content itself, so that it survives restarts and is the same on every node.
        Self { body: Bytes::from(format!("{{\"{field}\":{value}}}")), etag: quoted(&value.to_string()) }
    }
}

fn quoted(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"-\""))
}

/// All prepared answers of one board.
#[derive(Debug)]
pub(crate) struct Prepared {
    room: RoomId,
    board: Arc<Board>,
    serving_num: PreparedAnswer,
    waiting_num: PreparedAnswer,
    /// Made when first asked for: in a rush there are hundreds of boards a second.
    figures: OnceLock<PreparedAnswer>,
    edition: OnceLock<String>,
}

impl Prepared {
    pub(crate) fn of(room: &RoomId, board: &Arc<Board>) -> Self {
        Self {
            room: room.clone(),
            board: Arc::clone(board),
            serving_num: PreparedAnswer::new("serving_counter", board.serving),
            waiting_num: PreparedAnswer::new("waiting_num", board.waiting),
            figures: OnceLock::new(),
            edition: OnceLock::new(),
        }
    }

    pub(crate) fn is_of(&self, board: &Arc<Board>) -> bool {
        Arc::ptr_eq(&self.board, board)
    }

    /// `/serving_num`.
    pub(crate) const fn serving_num(&self) -> &PreparedAnswer {
        &self.serving_num
    }

    /// `/waiting_num`.
    pub(crate) const fn waiting_num(&self) -> &PreparedAnswer {
        &self.waiting_num
    }

    /// The public figures, as `/rooms/{id}` answers and `/watch` sends them.
    pub(crate) fn figures(&self) -> &PreparedAnswer {
        self.figures.get_or_init(|| PreparedAnswer {
            body: PublicFigures::of(&self.room, &self.board).json(),
            etag: quoted(&format!("{}-{}-{}", self.board.version, self.edition(), self.board.clock.0)),
        })
    }

    /// The same figures, with their age.
    pub(crate) fn stale_figures(&self, seconds: u64) -> Bytes {
        PublicFigures { stale_seconds: Some(seconds), ..PublicFigures::of(&self.room, &self.board) }.json()
    }

    /// What tells the figures of this room from others that are worth telling. The version does not: visitors who only join are
    /// counted without a new one, a frontier may come to stand still by time alone, and most reports of an origin's capacity make a
    /// new version that shows visitors nothing new. So it is made of what is shown, the version and the passing of time aside.
    pub(crate) fn edition(&self) -> &str {
        self.edition.get_or_init(|| {
            let joined = self.board.segments.last().map_or(0, |newest| newest.joined);
            let mut hasher = DefaultHasher::new();
            PublicFigures::of(&self.room, &self.board).news().hash(&mut hasher);
            format!("{joined}-{:016x}", hasher.finish())
        })
    }
}

/// What everybody may know about a room.
// Names and order of the fields are the API's.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Board)]
pub(crate) struct PublicFigures<'a> {
    /// The room's name.
    #[schema(value_type = RoomName)]
    pub(crate) room: &'a str,
    /// The commit they are of.
    pub(crate) version: u64,
    /// The room's clock at that commit.
    #[schema(value_type = Moment)]
    pub(crate) updated_at: String,
    /// What the room does.
    #[schema(value_type = RoomStateName)]
    pub(crate) state: &'static str,
    /// The serving counter.
    pub(crate) serving: u64,
    /// People who have joined and neither claimed, left nor lapsed.
    pub(crate) waiting: u64,
    /// People who have joined since the line began.
    pub(crate) joined: u64,
    /// How many places a minute the line has moved of late, to one decimal; null while that is not known.
    #[schema(required, minimum = 0)]
    pub(crate) admitted_per_minute: Option<f64>,
    /// What the operator tells those who wait; null if nothing.
    #[schema(required)]
    pub(crate) notice: Option<&'a str>,
    /// What moves the frontier.
    #[schema(value_type = InletName)]
    pub(crate) inlet: &'static str,
    /// Who among the waiting may claim.
    #[schema(value_type = DisciplineName)]
    pub(crate) discipline: &'static str,
    /// The last move of the frontier; null if it has not moved in this line.
    #[schema(required)]
    pub(crate) last_move: Option<PublicMove>,
    /// When the frontier moves next by the clock: its next step, the end of the round, or the beginning of its time. Null if no clock
    /// moves it, or something holds it.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) next_step_at: Option<String>,
    /// Why the frontier stands still; null if it moves, or will at the next step or round.
    #[schema(value_type = Option<StandstillName>, required)]
    pub(crate) standstill: Option<&'static str>,
    /// In an auction, the round that is open; null while the auction stands still, and in rooms that hold none.
    #[schema(required)]
    pub(crate) round: Option<PublicRound>,
    /// Oldest first.
    pub(crate) generations: Vec<GenerationFigures>,
    /// Told only while the server has lost its store: how many seconds ago all this was known to be so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stale_seconds: Option<u64>,
}

/// One generation of tickets.
#[derive(Debug, Serialize, ToSchema, Hash)]
#[schema(as = BoardGeneration)]
pub(crate) struct GenerationFigures {
    /// Its number: when it was opened, and a random byte.
    #[schema(value_type = Generation)]
    pub(crate) generation: u64,
    /// The position before its first.
    pub(crate) base: u64,
    /// The last position handed out.
    pub(crate) joined: u64,
    /// The last position served.
    pub(crate) serving: u64,
}

impl<'a> PublicFigures<'a> {
    fn of(room: &'a RoomId, board: &'a Board) -> Self {
        let generations = board.segments.iter().map(|segment| GenerationFigures {
            generation: u64::from(segment.generation.opened) * 256
                + u64::from(segment.generation.incarnation),
            base: segment.base,
            joined: segment.joined,
            serving: segment.serving,
        });
        Self {
            room: room.as_str(),
            version: board.version,
            updated_at: rfc3339(board.clock),
            state: board.state.as_str(),
            serving: board.serving,
            waiting: board.waiting,
            joined: board.segments.iter().map(|segment| segment.joined - segment.base).sum(),
            admitted_per_minute: board.pace.offers_per_minute_tenths(board.clock).map(one_decimal),
            notice: board.settings.notice.as_ref().map(anteroom_core::settings::Notice::as_str),
            inlet: board.settings.inlet.as_str(),
            discipline: board.settings.discipline.as_str(),
            last_move: board.last_move.as_ref().map(PublicMove::of),
            next_step_at: frontier::next_move_at(board).map(rfc3339),
            standstill: board.standstill.map(anteroom_core::Standstill::as_str),
            round: PublicRound::of(board),
            generations: generations.collect(),
            stale_seconds: None,
        }
    }

    /// All figures whose change is sent to watchers.
    fn news(&self) -> impl Hash {
        (
            (self.state, self.serving, self.waiting, self.joined),
            (self.notice, self.inlet, self.discipline, self.standstill),
            (&self.last_move, &self.next_step_at, &self.round, &self.generations),
        )
    }

    fn json(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("figures are numbers and texts"))
    }
}

#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 a tenth more or less says nothing")]
fn one_decimal(tenths: u64) -> f64 {
    tenths as f64 / 10.0
}

#[cfg(test)]
mod tests {
    use anteroom_core::settings::{Notice, People};
    use anteroom_core::{InletKind, Operation, Reads, Report, Room, Settings, Standstill, UnixMillis, apply};

    use super::*;

    const NOON: UnixMillis = UnixMillis(1_794_830_400_000);

    fn prepared(room: &Room) -> Prepared {
        Prepared::of(&RoomId::parse("Spring-Sale").unwrap(), &Arc::new(Board::of(room)))
    }

    fn after(room: Room, seconds: u64, operation: &Operation) -> Room {
        let applied = apply(room, NOON.plus(seconds * 1_000), operation, Reads::default());
        applied.answer.unwrap();
        applied.room
    }

    fn report(sequence: u64, free: u64) -> Operation {
        let sequence = Some(sequence);
        Operation::Report(Report { reporter: "web".into(), sequence, free: Some(free), ..Report::default() })
    }

    #[test]
    fn the_figures_are_written_like_this() {
        let mut room = Room::open(Settings::default(), NOON, 7);
        room.version = 1;
        assert_eq!(
            prepared(&room).figures().body,
            r#"{"room":"Spring-Sale","version":1,"updated_at":"2026-11-16T12:00:00.000Z","state":"open","serving":0,"waiting":0,"joined":0,"admitted_per_minute":null,"notice":null,"inlet":"manual","discipline":"counter","last_move":null,"next_step_at":null,"standstill":"by-hand-only","round":null,"generations":[{"generation":23235379207,"base":0,"joined":0,"serving":0}]}"#
        );
        room = after(room, 1, &Operation::Join { count: 500 });
        room = after(room, 2, &Operation::Advance { by: 10 });
        room = after(room, 18, &Operation::Advance { by: 20 });
        room = after(room, 18, &Operation::OpenSegment { incarnation: 8 });
        room = after(room, 18, &Operation::Join { count: 2 });
        room.version = 5;
        let prepared = prepared(&room);
        let newest = &room.newest();
        let expected = format!(
            r#"{{"room":"Spring-Sale","version":5,"updated_at":"2026-11-16T12:00:18.000Z","state":"open","serving":30,"waiting":502,"joined":502,"admitted_per_minute":75.0,"notice":null,"inlet":"manual","discipline":"counter","last_move":{{"by":"hand","at":"2026-11-16T12:00:18.000Z"}},"next_step_at":null,"standstill":"by-hand-only","round":null,"generations":[{{"generation":23235379207,"base":0,"joined":500,"serving":30}},{{"generation":{},"base":{},"joined":{},"serving":{}}}]}}"#,
            u64::from(newest.generation.opened) * 256 + 8,
            newest.base,
            newest.joined,
            newest.serving,
        );
        assert_eq!(prepared.figures().body, expected);
        assert!(prepared.edition().starts_with("2-"), "{}", prepared.edition());
    }

    #[test]
    fn stale_figures_are_the_same_with_their_age() {
        let prepared = prepared(&Room::open(Settings::default(), NOON, 7));
        let fresh = String::from_utf8(prepared.figures().body.to_vec()).unwrap();
        let stale = String::from_utf8(prepared.stale_figures(12).to_vec()).unwrap();
        assert_eq!(stale, fresh.strip_suffix('}').unwrap().to_owned() + ",\"stale_seconds\":12}");
    }

    #[test]
    fn a_join_alone_makes_another_edition_of_the_same_version() {
        let room = Room::open(Settings::default(), NOON, 7);
        let before = prepared(&room);
        let joined = prepared(&after(room.clone(), 0, &Operation::Join { count: 1 }));
        assert_ne!(before.edition(), joined.edition());
        assert_ne!(before.figures().etag, joined.figures().etag);
        // Time alone makes another answer, but nothing that is worth telling.
        let later = prepared(&after(room, 5, &Operation::Tick));
        assert_eq!(before.edition(), later.edition());
        assert_ne!(before.figures().etag, later.figures().etag);
    }

    #[test]
    fn a_standstill_by_time_alone_is_news() {
        let settings = Settings {
            inlet: InletKind::MaxSize,
            total_active_users: Some(9),
            notice: Notice::new("Doors open at eight."),
            ..Settings::default()
        };
        let room = after(Room::open(settings, NOON, 7), 0, &report(1, 0));
        let room = after(room, 0, &Operation::Join { count: 1 });
        let full = prepared(&room);
        // The origin falls silent after three rounds of ten seconds, and nothing else happens.
        let silent = prepared(&after(room, 31, &Operation::Tick));
        assert_ne!(full.edition(), silent.edition());
        let shown = |prepared: &Prepared| -> serde_json::Value {
            serde_json::from_slice(&prepared.figures().body).unwrap()
        };
        assert_eq!(shown(&full)["standstill"], "none-free");
        assert_eq!(shown(&silent)["standstill"], "no-report");
        assert_eq!(shown(&silent)["notice"], "Doors open at eight.");
    }

    #[test]
    fn what_changes_nothing_for_visitors_is_no_news() {
        let settings =
            Settings { inlet: InletKind::Window, window_size: People::new(5), ..Settings::default() };
        let mut room = Room::open(settings, NOON, 7);
        let before = prepared(&room);
        // A timetable that goes on while nobody waits, and the origin's reports.
        for minute in 1..5 {
            room = after(room, minute * 60, &report(minute, 9));
            room.version += 1;
            let later = prepared(&room);
            assert_eq!(before.edition(), later.edition());
            assert_ne!(before.figures().etag, later.figures().etag, "the bytes say another version");
        }
        // Once a visitor waits, the next step is shown.
        let room = after(room, 250, &Operation::Join { count: 1 });
        assert_eq!(frontier::next_move_at(&Board::of(&room)), Some(NOON.plus(300_000)));
    }

    #[test]
    fn before_its_time_the_next_move_is_the_beginning() {
        let settings = Settings {
            inlet: InletKind::MaxSize,
            total_active_users: Some(9),
            start_time: NOON.seconds() + 90,
            ..Settings::default()
        };
        let room = after(Room::open(settings, NOON, 7), 0, &Operation::Join { count: 1 });
        assert_eq!(frontier::next_move_at(&Board::of(&room)), Some(NOON.plus(90_000)));
        let room = after(room, 90, &Operation::Tick);
        assert_eq!((room.serving(), Board::of(&room).standstill), (1, Some(Standstill::NobodyWaiting)));
    }
}
