//! What the server around the gateway asks it: calls about lines on hosts that it does not stand before, and the waiting
//! page for sites without a gateway.

use anteroom_admission::RoomView;
use anteroom_core::RoomId;
use anteroom_core::settings::JoinMode;
use http::{Method, Request, Response};

use super::Gateway;
use crate::body::GatewayBody;
use crate::classify;
use crate::identify::{self, Peer};
use crate::limiter::{Class, Quota};
use crate::line;
use crate::line::door::DOOR_PATH;
use crate::line::hand_off::{HandOffVisitor, wait_path};
use crate::line::page::Reader;
use crate::reject::{self, Branding, Rejection};
use crate::verdict::EntryTrigger;

impl Gateway {
    /// The answer to a call about the line of a room, on whatever host. Its client is within its budgets.
    pub async fn answer_about_line<B>(
        &self,
        request: &Request<B>,
        peer: &Peer,
        room: Option<&RoomId>,
    ) -> Response<GatewayBody> {
        let (is_tls, now) = (peer.is_tls || self.public_is_tls, self.engine.now());
        let reader = Reader::of(&self.writer, request).below_prefix();
        let Some(rule) = room.and_then(|room| self.rooms.by_name(room.as_str())) else {
            return reject::answer(&Rejection::UnknownRoom, &reader, None);
        };
        let client = identify::identify(peer, request.headers(), &self.identification);
        let case = self.case(&rule, classify::kind(request), request.headers(), &client, (is_tls, now));
        line::answer(self.line_call(case, reader, is_tls), request).await
    }

    /// The response to a visitor of a site without a gateway: `GET /wait/{room}`, and the button of that page. Its
    /// client is within its budget for reading.
    pub async fn answer_hand_off<B>(
        &self,
        request: &Request<B>,
        peer: &Peer,
        room: &str,
    ) -> Response<GatewayBody> {
        let (is_tls, now) = (peer.is_tls || self.public_is_tls, self.engine.now());
        let reader = Reader::of(&self.writer, request).below_prefix();
        let Some(rule) = self.rooms.by_name(room) else {
            return reject::answer(&Rejection::UnknownRoom, &reader, None);
        };
        let branding = Branding { room: rule.room.handle.id(), settings: &rule.settings };
        let client = identify::identify(peer, request.headers(), &self.identification);
        let mut case = self.case(&rule, classify::kind(request), request.headers(), &client, (is_tls, now));
        case.entry_trigger = EntryTrigger::HandOff;
        if case.would_join()
            && let Some(rejection) = self.charge_in(&rule, Class::Join, request, &client).await
        {
            return reject::answer(&rejection, &reader, Some(branding));
        }
        let visitor = HandOffVisitor {
            call: self.line_call(case, reader, is_tls),
            gateway: self,
            client: &client,
            is_button: request.method() == Method::POST,
        };
        visitor.answer(request).await
    }

    /// How visitors take a place in a room in which programs may not; nothing where they may.
    pub fn way_to_join(&self, room: &RoomView) -> Option<String> {
        let mode = room.handle.with_board(|board| board.settings.join);
        if mode == Some(JoinMode::Open) || mode.is_none() && self.rooms.is_empty() {
            return None;
        }
        let rule = self.rooms.by_name(room.handle.id().as_str())?;
        let way = || if rule.is_protected { DOOR_PATH.to_owned() } else { wait_path(room.handle.id()) };
        rule.joins_by_page().then(way)
    }

    /// Whether visitors come into a room by pages of the gateway alone, and programs cannot claim a pass for them.
    pub fn enters_by_page(&self, room: &RoomView) -> bool {
        let is_door = |way: String| way == DOOR_PATH;
        self.way_to_join(room).is_some_and(is_door)
    }

    /// Counts a place that a program has taken to another device.
    pub fn note_moved(&self, room: &RoomId) {
        self.figures.count_move(room.as_str());
    }

    /// Counts a code that a site without a gateway has exchanged.
    pub fn note_code_exchanged(&self, room: &RoomId) {
        self.figures.count_code_exchange(room.as_str());
    }

    /// The page for a client beyond its budget, where it reads pages.
    pub fn limited_page<B>(&self, request: &Request<B>, quota: &Quota) -> Option<Response<GatewayBody>> {
        let reader = Reader::of(&self.writer, request).below_prefix();
        let rejection = Rejection::Limited(Box::new(quota.clone()));
        reader.wants_page.then(|| reject::answer(&rejection, &reader, None))
    }
}
