//! What the server around the gateway asks it: calls about lines on hosts that it does not stand before, and the waiting
//! page for sites without a gateway.

use anteroom_admission::RoomView;
use anteroom_core::RoomId;
use anteroom_core::settings::JoinMode;
use anteroom_pages::{Page, Situation};
use http::{Method, Request, Response, StatusCode};

use super::Gateway;
use crate::body::GatewayBody;
use crate::classify;
use crate::identify::{self, Peer};
use crate::limiter::{Class, Quota};
use crate::line;
use crate::line::door::DOOR_PATH;
use crate::line::elsewhere::ElsewhereVisitor;
use crate::line::hand_off::{HandOffVisitor, wait_path};
use crate::line::openid::{self, OpenIdLogin, OpenIdStep, OpenIdVisitor};
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
        let visitor = ElsewhereVisitor {
            call: self.line_call(case, reader, is_tls),
            gateway: self,
            client: &client,
            is_button: request.method() == Method::POST,
        };
        HandOffVisitor(visitor).answer(request).await
    }

    /// The response to a visitor who logs in to a site by OpenID. The request is one for the page, or of a button of it, and its client is
    /// within its budget for that.
    pub async fn answer_openid<B>(
        &self,
        request: &Request<B>,
        peer: &Peer,
        room: &RoomId,
        login: &OpenIdLogin<'_>,
    ) -> Response<GatewayBody> {
        let (is_tls, now) = (peer.is_tls || self.public_is_tls, self.engine.now());
        let own = login.address(room);
        let reader = Reader::of(&self.writer, request).at(&own).preferring(login.languages);
        let Some(rule) = self.rooms.by_name(room.as_str()) else {
            return reject::answer(&Rejection::UnknownRoom, &reader, None);
        };
        let branding = Branding { room: rule.room.handle.id(), settings: &rule.settings };
        let client = identify::identify(peer, request.headers(), &self.identification);
        let mut case = self.case(&rule, classify::kind(request), request.headers(), &client, (is_tls, now));
        case.entry_trigger = EntryTrigger::HandOff;
        let may_join = login.step == OpenIdStep::Page && !login.is_silent;
        if may_join
            && case.would_join()
            && let Some(rejection) = self.charge_in(&rule, Class::Join, request, &client).await
        {
            return reject::answer(&rejection, &reader, Some(branding));
        }
        let visitor = ElsewhereVisitor {
            call: self.line_call(case, reader, is_tls),
            gateway: self,
            client: &client,
            is_button: login.step == OpenIdStep::Enter,
        };
        OpenIdVisitor { visitor, login }.answer(request).await
    }

    /// The page for a visitor who has taken their place to this device, and has to log in again at the site.
    pub fn moved_openid_page<B>(
        &self,
        request: &Request<B>,
        room: &RoomId,
        site: &str,
    ) -> Response<GatewayBody> {
        let reader = Reader::of(&self.writer, request);
        let rule = self.rooms.by_name(room.as_str());
        let page = Page {
            situation: Situation::Elsewhere,
            settings: rule.as_ref().map(|rule| &*rule.settings),
            room: Some(room.as_str()),
            site: Some(site),
            ..Page::default()
        };
        reader.page(StatusCode::OK, &page)
    }

    /// The page, or the problem, for a login that cannot be answered at the site that asks for it.
    pub fn refuse_openid<B>(
        &self,
        request: &Request<B>,
        room: Option<&RoomId>,
        status: StatusCode,
        text: &'static str,
    ) -> Response<GatewayBody> {
        let reader = Reader::of(&self.writer, request);
        let rule = room.and_then(|room| self.rooms.by_name(room.as_str()));
        let branding =
            rule.as_ref().map(|rule| Branding { room: rule.room.handle.id(), settings: &rule.settings });
        reject::answer(&Rejection::Line(status, text), &reader, branding)
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
        let mut reader = Reader::of(&self.writer, request).below_prefix();
        if openid::is_login(request.uri().path()) {
            // A login stands in its address, which may be longer than those of other pages.
            let query = request.uri().query().unwrap_or_default();
            reader = reader.at(&format!("/.anteroom{}?{query}", request.uri().path()));
        }
        let rejection = Rejection::Limited(Box::new(quota.clone()));
        reader.wants_page.then(|| reject::answer(&rejection, &reader, None))
    }
}
