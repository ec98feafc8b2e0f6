//! Forwarding a request to its origin, and what that means for its visit: it is touched and renewed, ended where the origin says so,
//! and kept up by an upgraded connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anteroom_core::{Recognition, SessionKey, UnixMillis};
use anteroom_engine::Engine;
use anteroom_tokens::cookie::CookieContent;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::{Gateway, background, is_about_a_line, refuse, set_cookie};
use crate::account::{Account, Verdict};
use crate::body::GatewayBody;
use crate::classify::rooms::Rule;
use crate::identify::Client;
use crate::limiter::Class;
use crate::line::page::Reader;
use crate::reject::Rejection;
use crate::verdict::cookies::{self, CookieKind};
use crate::verdict::visits::{Due, Touch, key_of};
use crate::verdict::{Entry, InsideVisitor};
use anteroom_proxy::{self as proxy, ForwardedResponse, Hop, Origins, Tunnel};

/// What an origin says about a visit in its answer. It goes no further.
const COMMAND: HeaderName = HeaderName::from_static("anteroom-session");
/// How many commands of one answer are read.
const COMMANDS_READ_MAX: usize = 8;
/// How much of an unknown one is logged.
const COMMAND_LOGGED_MAX_BYTES: usize = 64;
/// How long after one log line about a command none follows.
const LOG_PAUSE_MILLIS: u64 = 60_000;
/// Tells the origin through which room a request was let in.
const ROOM: HeaderName = HeaderName::from_static("anteroom-room");
/// Tells the origin which visit it belongs to: the line and the position.
const VISIT: HeaderName = HeaderName::from_static("anteroom-visit");
/// How often it is checked whether the visit of an upgraded connection is over.
const TUNNEL_MAINTENANCE_PERIOD: Duration = Duration::from_secs(1);

impl Gateway {
    /// A request that no room is responsible for.
    pub(super) async fn forward_unprotected(
        &self,
        mut request: Request<Incoming>,
        client: &Client,
        is_tls: bool,
        origins: &Arc<Origins>,
    ) -> Response<GatewayBody> {
        let mut account = Account::open(&self.no_room);
        let reader = Reader::of(&self.writer, &request);
        if let Some(rejection) = self.charge(Class::Gateway, &request, client).await {
            return refuse(&rejection, &reader, None, &mut account);
        }
        if is_about_a_line(request.uri().path()) {
            let nothing = Rejection::Line(StatusCode::NOT_FOUND, "There is no line on this site");
            return refuse(&nothing, &reader, None, &mut account);
        }
        account.settle(Verdict::Unprotected);
        cookies::hide(request.headers_mut());
        let hop = Hop { client: client.address, is_tls, visit: None };
        match proxy::forward(origins, request, &hop, &HeaderMap::new()).await {
            Ok(ForwardedResponse { mut response, tunnel }) => {
                response.headers_mut().remove(COMMAND);
                if let Some(tunnel) = tunnel {
                    self.run_tunnel(tunnel, std::future::pending());
                }
                response.map(GatewayBody::Streamed)
            }
            Err(error) => refuse(&Rejection::Origin(error), &reader, None, &mut account),
        }
    }

    /// Passes a request on, touching its visit meanwhile where that is due.
    pub(super) async fn forward_admitted(
        self: &Arc<Self>,
        rule: &Arc<Rule>,
        request: Request<Incoming>,
        entry: Entry,
        (client, is_tls, now): (&Client, bool, UnixMillis),
        (reader, account): (&Reader<'_>, &mut Account<'_>),
    ) -> Response<GatewayBody> {
        let Some(origins) = &rule.origins else {
            return refuse(&Rejection::Misdirected, reader, Some(rule), account);
        };
        account.settle(entry.verdict);
        let hop = Hop {
            client: client.address,
            is_tls,
            visit: entry.inside.map(|inside| rule.room.visit_tag(&inside.ticket)),
        };
        let extra = visit_headers(rule, entry.inside.as_ref());
        let touch = self.touch(rule, &entry, now);
        let (forwarded, ()) = tokio::join!(proxy::forward(origins, request, &hop, &extra), touch);
        let now = self.engine.now();
        let mut response = match forwarded {
            Ok(ForwardedResponse { response, tunnel }) => {
                if let Some(tunnel) = tunnel {
                    let until = wait_for_visit_end(
                        Arc::clone(&self.engine),
                        Arc::clone(rule),
                        entry.inside,
                        entry.ends_at,
                    );
                    self.run_tunnel(tunnel, until);
                }
                response.map(GatewayBody::Streamed)
            }
            Err(error) => {
                let rejection = Rejection::Origin(error);
                refuse(&rejection, reader, Some(rule), account)
            }
        };
        let command = Command::take(response.headers_mut(), |ignored| {
            if rule.room.ignored_commands.may_log(now) {
                let (room, ignored) = (rule.room.handle.id(), ignored.escape_debug());
                tracing::warn!(%room, %ignored, "ignored a session command of the origin, further ones are not logged for a minute");
            }
        });
        if let (Some(command), Some(inside)) = (command, &entry.inside) {
            Self::end_visit(rule, inside, command, now);
            let cleared = rule.room.cookie_names.clear(CookieKind::Place, is_tls);
            cookies::attach(response.headers_mut(), cleared);
            return response;
        }
        let renewed = || Some((CookieKind::Place, renewed_cookie(rule, entry.inside.as_ref()?)?));
        if let Some((kind, cookie)) = entry.cookie.or_else(renewed) {
            set_cookie(rule, &mut response, (kind, &cookie), is_tls, now);
        }
        response
    }

    /// Touches a visit if that is due, and waits a moment for the store to say so.
    pub(super) async fn touch(&self, rule: &Rule, entry: &Entry, now: UnixMillis) {
        // A visit that began with this very request has just been touched.
        let Some(inside) = entry.inside.as_ref().filter(|_| entry.verdict != Verdict::Admitted) else {
            return;
        };
        let key = key_of(&inside.ticket);
        let session_millis = rule.settings.session_duration.get() * 1000;
        let is_lost = self.has_lost_store();
        if is_lost || rule.room.visits.note(key, now, session_millis) == Due::Nothing {
            return;
        }
        let touch = Touch { now, session_millis };
        rule.room.touch_detached(key, touch).await;
    }

    /// Ends a visit because the origin says so: this node revokes it at once, and its slot is free when all nodes know.
    fn end_visit(rule: &Arc<Rule>, inside: &InsideVisitor, command: Command, now: UnixMillis) {
        use anteroom_core::{Operation, Outcome};
        let key = key_of(&inside.ticket);
        rule.room.visits.revoke(key, now, rule.settings.session_duration.get() * 1000);
        let outcome = match command {
            Command::Complete => Outcome::Completed,
            Command::Abandon | Command::Revoke => Outcome::Abandoned,
        };
        let handle = Arc::clone(&rule.room.handle);
        background(async move {
            let actor = anteroom_engine::Actor::Visitor;
            if let Err(error) = handle.operate(Operation::Close { key, outcome }, actor).await {
                tracing::warn!(room = %handle.id(), %error, "ending a visit on the origin's word failed, its slot stays taken until the visit expires");
            }
        });
    }

    /// Carries an upgraded connection in a task of its own, until `until` or the end of everything.
    fn run_tunnel(&self, tunnel: Tunnel, until: impl Future<Output = ()> + Send + 'static) {
        let (tunnels, mut closing) = (Arc::clone(&self.tunnels), self.closing.subscribe());
        tunnels.fetch_add(1, Ordering::Relaxed);
        background(async move {
            let ended = async {
                tokio::select! {
                    () = until => {}
                    _ = closing.wait_for(|closing| *closing) => {}
                }
            };
            tunnel.run(ended).await;
            tunnels.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// What an origin commands about a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Complete,
    Abandon,
    Revoke,
}

impl Command {
    /// Takes the commands out of an answer. The first known one counts; the others are told to `ignored`, cut short.
    fn take(headers: &mut HeaderMap, mut ignored: impl FnMut(&str)) -> Option<Self> {
        if !headers.contains_key(COMMAND) {
            return None;
        }
        let mut command = None;
        let values = headers.get_all(COMMAND).iter();
        let words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        for word in words.map(<[u8]>::trim_ascii).filter(|word| !word.is_empty()).take(COMMANDS_READ_MAX) {
            match Self::parse(word).filter(|_| command.is_none()) {
                Some(known) => command = Some(known),
                None => ignored(&String::from_utf8_lossy(&word[..word.len().min(COMMAND_LOGGED_MAX_BYTES)])),
            }
        }
        headers.remove(COMMAND);
        command
    }

    fn parse(word: &[u8]) -> Option<Self> {
        let known = [
            (&b"complete"[..], Self::Complete),
            (&b"abandon"[..], Self::Abandon),
            (&b"revoke"[..], Self::Revoke),
        ];
        known.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, command)| command)
    }
}

/// Lets one log line a minute through.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(AtomicU64);

impl LogThrottle {
    pub(super) fn may_log(&self, now: UnixMillis) -> bool {
        let next = self.0.load(Ordering::Relaxed);
        now.0 >= next
            && self
                .0
                .compare_exchange(next, now.plus(LOG_PAUSE_MILLIS).0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// The cookie of a visit that the store has extended since.
pub(crate) fn renewed_cookie(rule: &Rule, inside: &InsideVisitor) -> Option<CookieContent> {
    let ends_at = rule.room.visits.ends_at(key_of(&inside.ticket))?;
    if ends_at <= inside.ends_at {
        return None;
    }
    let (ticket, admitted_at) = (inside.ticket, inside.admitted_at);
    Some(CookieContent::Admitted { ticket, admitted_at, ends_at })
}

/// The header fields that the origin gets about a visit.
pub(super) fn visit_headers(rule: &Rule, inside: Option<&InsideVisitor>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(room) = &rule.room.name_header {
        headers.insert(ROOM, room.clone());
    }
    if let Some(InsideVisitor { ticket, .. }) = inside {
        headers.insert(VISIT, visit_value(key_of(ticket)));
    }
    headers
}

/// As [`SessionKey`] is displayed. Every request of a visitor inside has it, so it is written without the machinery of formats.
fn visit_value(key: SessionKey) -> HeaderValue {
    const LONGEST: usize = "18446744073709551615-18446744073709551615".len();
    let mut text = [0; LONGEST];
    let mut begin = LONGEST;
    for (index, mut number) in [key.position.get(), key.generation.number()].into_iter().enumerate() {
        if index > 0 {
            begin -= 1;
            text[begin] = b'-';
        }
        loop {
            begin -= 1;
            text[begin] = b"0123456789"[(number % 10) as usize];
            number /= 10;
            if number == 0 {
                break;
            }
        }
    }
    HeaderValue::from_bytes(&text[begin..]).expect("digits and a hyphen stand in a header field")
}

/// Resolves when the visit of an upgraded connection is over, touching it as long as it is not. One without a visit goes on.
async fn wait_for_visit_end(
    engine: Arc<Engine>,
    rule: Arc<Rule>,
    inside: Option<InsideVisitor>,
    without_slot_until: Option<UnixMillis>,
) {
    let Some(inside) = inside else {
        match without_slot_until {
            Some(ends_at) => tokio::time::sleep(Duration::from_millis(ends_at.since(engine.now()))).await,
            None => std::future::pending().await,
        }
        return;
    };
    let (room, key) = (&rule.room, key_of(&inside.ticket));
    let session_millis = rule.settings.session_duration.get() * 1000;
    let mut ends_at = inside.ends_at;
    loop {
        let left = Duration::from_millis(ends_at.since(engine.now()));
        tokio::time::sleep(left.min(TUNNEL_MAINTENANCE_PERIOD).max(Duration::from_millis(1))).await;
        let now = engine.now();
        let is_foreign = room.handle.with_board(|board| {
            room.visits.follow(board, now);
            board.recognise(&inside.ticket, now) == Recognition::Foreign
        });
        let is_gone = room.handle.is_deleted() || room.handle.is_replaced();
        if is_foreign || is_gone || room.visits.is_revoked(key) {
            return;
        }
        if room.visits.note(key, now, session_millis) == Due::Touch {
            room.touch_detached(key, Touch { now, session_millis }).await;
        }
        ends_at = ends_at.max(room.visits.ends_at(key).unwrap_or(ends_at));
        if engine.now() >= ends_at {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Generation, Position};

    use super::*;

    #[test]
    fn the_first_known_command_counts_in_any_case_and_the_rest_is_told() {
        for (values, expected, ignored) in [
            (&["complete"][..], Some(Command::Complete), &[][..]),
            (&["Complete"], Some(Command::Complete), &[]),
            (&[" REVOKE "], Some(Command::Revoke), &[]),
            (&["dance, Abandon, complete"], Some(Command::Abandon), &["dance", "complete"]),
            (&["dance", "abandon"], Some(Command::Abandon), &["dance"]),
            (&["abandon", "revoke"], Some(Command::Abandon), &["revoke"]),
            (&["completed"], None, &["completed"]),
            (&["", ","], None, &[]),
            (&[], None, &[]),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(COMMAND, HeaderValue::from_str(value).unwrap());
            }
            let mut told = Vec::new();
            let command = Command::take(&mut headers, |word| told.push(word.to_owned()));
            assert_eq!(
                (command, told),
                (expected, ignored.iter().map(ToString::to_string).collect()),
                "{values:?}"
            );
            assert!(!headers.contains_key(COMMAND));
        }
        let mut headers = HeaderMap::new();
        headers.append(COMMAND, HeaderValue::from_str(&"x,".repeat(10_000)).unwrap());
        let mut told = 0;
        Command::take(&mut headers, |_| told += 1);
        assert_eq!(told, COMMANDS_READ_MAX);
    }

    #[test]
    fn a_visit_is_written_as_it_is_displayed() {
        for (opened, incarnation, position) in
            [(0, 0, 1), (91_000_000, 7, 4_211), (u32::MAX, u8::MAX, (1 << 40) - 1)]
        {
            let generation = Generation { opened, incarnation };
            let key = SessionKey { generation, position: Position::new(position).unwrap() };
            assert_eq!(visit_value(key).to_str().unwrap(), key.to_string());
        }
    }

    #[test]
    fn one_line_a_minute_is_logged() {
        let throttle = LogThrottle::default();
        let allowed: Vec<bool> = [1_000, 1_001, 60_999, 61_000, 61_001]
            .into_iter()
            .map(|now| throttle.may_log(UnixMillis(now)))
            .collect();
        assert_eq!(allowed, [true, false, false, true, false]);
    }
}
