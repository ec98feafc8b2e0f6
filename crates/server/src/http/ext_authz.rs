//! `envoy.service.auth.v3.Authorization/Check`: Envoy asks over gRPC for the verdict on a request that it passes on; so do Istio
//! and the Gateway API. On a listener of its own, for `check_proxies` only.
//!
//! The messages are the part of Envoy's that a verdict needs, under Envoy's own field numbers; what else they hold is passed over.
//!
//! A refusal is never an error of the call: an Envoy with `failure_mode_allow` lets errors pass.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use anteroom_gateway::check::{Described, Dialect};
use anteroom_gateway::identify::{Client, Peer, identify};
use anteroom_gateway::{Allowance, CheckAnswer};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body as GrpcBody;
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::app::App;

/// The one call.
const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";
/// The largest request that is described to us: Envoy takes header fields of 60 KiB, and sends no body unless it is told to. A larger
/// one is an error of the call, so this is generous.
const CHECK_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The largest page that is sent back.
const PAGE_MAX_BYTES: usize = 1024 * 1024;
/// What names the room, in the settings of a route or as metadata of the call.
const ROOM_EXTENSION: &str = "room";
const ROOM_METADATA: &str = "anteroom-room";
const SECRET_METADATA: &str = "anteroom-check-secret";
/// What only we tell an origin.
const TOLD_TO_ORIGIN: [&str; 2] = ["anteroom-room", "anteroom-visit"];
/// Fields of a response that Envoy writes itself.
const WRITTEN_BY_ENVOY: [HeaderName; 3] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION];
/// The namespace of a visit in the dynamic metadata is the filter's; these are its fields.
const METADATA_ROOM: &str = "anteroom_room";
const METADATA_VISIT: &str = "anteroom_visit";

/// What the connections of the listener call.
#[derive(Clone)]
pub(crate) struct ExtAuthz {
    app: Arc<App>,
    peer: Peer,
}

impl ExtAuthz {
    pub(crate) fn new(app: &Arc<App>, peer: Peer) -> Self {
        Self { app: Arc::clone(app), peer }
    }

    async fn check(
        self,
        request: tonic::Request<CheckRequest>,
    ) -> Result<tonic::Response<CheckResponse>, Status> {
        if !self.may_ask(request.metadata()) {
            tracing::debug!(peer = %self.peer.address, "check over gRPC by an address that may not ask");
            return Ok(tonic::Response::new(CheckResponse::forbidden()));
        }
        let named_by_metadata = request.metadata().get(ROOM_METADATA).and_then(|name| name.to_str().ok());
        let named_by_metadata = named_by_metadata.map(str::to_owned);
        let attributes = request.into_inner().attributes.unwrap_or_default();
        let named = attributes.context_extensions.get(ROOM_EXTENSION).cloned().or(named_by_metadata);
        // Without a name the default room; a name that is none is refused by the check itself.
        let default = || self.app.room_or_default(None).map(|room| room.handle.id().to_string());
        let room = named.or_else(default).unwrap_or_default();
        let http = attributes.request.and_then(|request| request.http).unwrap_or_default();
        let headers = http.headers();
        let client = self.client(attributes.source, &headers);
        let described = Described::of(http.method.as_bytes(), http.path.as_bytes(), headers);
        let gateway = &self.app.gateway;
        let answer = gateway.check(Dialect::Grpc, &room, described, &client, self.peer.is_tls).await;
        Ok(tonic::Response::new(match answer {
            CheckAnswer::Allow(allowance) => CheckResponse::allow(allowance),
            CheckAnswer::Refuse(response) => CheckResponse::deny(*response).await,
        }))
    }

    /// Who may ask over gRPC is who may ask over HTTP.
    fn may_ask(&self, metadata: &MetadataMap) -> bool {
        let mut shown = HeaderMap::new();
        if let Some(secret) = metadata.get(SECRET_METADATA)
            && let Ok(secret) = HeaderValue::from_bytes(secret.as_encoded_bytes())
        {
            shown.insert(SECRET_METADATA, secret);
        }
        self.app.check_proxies.trusts(&shown, &self.peer)
    }

    /// The client of Envoy; a proxy before Envoy is followed back if it is trusted.
    fn client(&self, source: Option<Source>, headers: &HeaderMap) -> Client {
        let socket = source.and_then(|source| source.address).and_then(|address| address.socket_address);
        let address = socket.and_then(|socket| socket.address.parse().ok());
        let address = address.map_or(self.peer.address, |ip| SocketAddr::new(ip, 0));
        let peer = Peer { address, is_tls: self.peer.is_tls };
        // Envoy itself writes `X-Forwarded-For`, so the field says nothing of a stranger.
        Client { forwarded_for: None, ..identify(&peer, headers, &self.app.identification) }
    }
}

impl UnaryService<CheckRequest> for ExtAuthz {
    type Response = CheckResponse;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<CheckResponse>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<CheckRequest>) -> Self::Future {
        Box::pin(self.clone().check(request))
    }
}

impl hyper::service::Service<Request<Incoming>> for ExtAuthz {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != CHECK {
                return Ok(Status::unimplemented("this listener answers to Authorization/Check").into_http());
            }
            let mut grpc = Grpc::new(ProstCodec::<CheckResponse, CheckRequest>::default())
                .max_decoding_message_size(CHECK_MAX_BYTES);
            Ok(grpc.unary(service, request).await)
        })
    }
}

impl HttpRequest {
    /// Its header fields. The page is sent as text, so it is not compressed.
    fn headers(&self) -> HeaderMap {
        let fields = self.headers.iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let is_read = name != header::ACCEPT_ENCODING;
            is_read.then_some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
        });
        fields.collect()
    }
}

impl CheckResponse {
    fn allow(allowance: Allowance) -> Self {
        let Allowance { to_origin, cookie } = allowance;
        let text = |name: &str| Some(to_origin.get(name)?.to_str().ok()?.to_owned());
        let [room, visit] = TOLD_TO_ORIGIN.map(text);
        // What a client has put there itself is not told to the origin.
        let headers_to_remove =
            TOLD_TO_ORIGIN.iter().filter(|name| !to_origin.contains_key(**name)).map(ToString::to_string);
        let ok = OkResponse {
            headers: to_origin
                .iter()
                .filter_map(|(name, value)| HeaderOption::overwriting(name, value))
                .collect(),
            headers_to_remove: headers_to_remove.collect(),
            response_headers_to_add: cookie
                .and_then(|cookie| HeaderOption::appending(&header::SET_COOKIE, &cookie))
                .into_iter()
                .collect(),
        };
        let fields = [(METADATA_ROOM, room), (METADATA_VISIT, visit)];
        let fields = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), Value { string_value: Some(value?) })));
        Self {
            status: Some(RpcStatus { code: Code::Ok as i32 }),
            http_response: Some(HttpResponse::Ok(ok)),
            dynamic_metadata: Some(Struct { fields: fields.collect() }),
        }
    }

    /// Who may not ask has nothing passed. An error of the call could be taken for permission.
    fn forbidden() -> Self {
        let body = "Checks are for check_proxies, or for those that show the secret of checks as metadata"
            .to_owned();
        let status = Some(HttpStatus { code: StatusCode::FORBIDDEN.as_u16().into() });
        Self {
            status: Some(RpcStatus { code: Code::PermissionDenied as i32 }),
            http_response: Some(HttpResponse::Denied(DeniedResponse { status, headers: vec![], body })),
            dynamic_metadata: None,
        }
    }

    async fn deny(response: Response<anteroom_gateway::GatewayBody>) -> Self {
        let (parts, body) = response.into_parts();
        let body = http_body_util::Limited::new(body, PAGE_MAX_BYTES).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let fields = parts.headers.iter().filter(|(name, _)| !WRITTEN_BY_ENVOY.contains(name));
        let denied = DeniedResponse {
            status: Some(HttpStatus { code: parts.status.as_u16().into() }),
            headers: fields.filter_map(|(name, value)| HeaderOption::appending(name, value)).collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        Self {
            status: Some(RpcStatus { code: Code::PermissionDenied as i32 }),
            http_response: Some(HttpResponse::Denied(denied)),
            dynamic_metadata: None,
        }
    }
}

impl HeaderOption {
    fn overwriting(name: &HeaderName, value: &HeaderValue) -> Option<Self> {
        Self::of(name, value, AppendAction::OverwriteIfExistsOrAdd)
    }

    fn appending(name: &HeaderName, value: &HeaderValue) -> Option<Self> {
        Self::of(name, value, AppendAction::AppendIfExistsOrAdd)
    }

    fn of(name: &HeaderName, value: &HeaderValue, action: AppendAction) -> Option<Self> {
        let header = Header { key: name.to_string(), value: value.to_str().ok()?.to_owned() };
        Some(Self { header: Some(header), append_action: action.into() })
    }
}

/// `envoy.service.auth.v3.CheckRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
struct Attributes {
    #[prost(message, optional, tag = "1")]
    source: Option<Source>,
    #[prost(message, optional, tag = "4")]
    request: Option<AttributesRequest>,
    #[prost(map = "string, string", tag = "10")]
    context_extensions: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Source {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
}

#[derive(Clone, PartialEq, Message)]
struct AttributesRequest {
    #[prost(message, optional, tag = "2")]
    http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpRequest {
    #[prost(string, tag = "2")]
    method: String,
    #[prost(map = "string, string", tag = "3")]
    headers: HashMap<String, String>,
    /// The target, its query included.
    #[prost(string, tag = "4")]
    path: String,
}

/// `envoy.service.auth.v3.CheckResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<RpcStatus>,
    #[prost(oneof = "HttpResponse", tags = "2, 3")]
    http_response: Option<HttpResponse>,
    #[prost(message, optional, tag = "4")]
    dynamic_metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum HttpResponse {
    #[prost(message, tag = "2")]
    Denied(DeniedResponse),
    #[prost(message, tag = "3")]
    Ok(OkResponse),
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct DeniedResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderOption>,
    #[prost(string, tag = "3")]
    body: String,
}

#[derive(Clone, PartialEq, Message)]
struct OkResponse {
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderOption>,
    #[prost(string, repeated, tag = "5")]
    headers_to_remove: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    response_headers_to_add: Vec<HeaderOption>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpStatus {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderOption {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(enumeration = "AppendAction", tag = "3")]
    append_action: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum AppendAction {
    AppendIfExistsOrAdd = 0,
    OverwriteIfExistsOrAdd = 2,
}

/// `google.protobuf.Struct`, of texts only.
#[derive(Clone, PartialEq, Message)]
struct Struct {
    #[prost(map = "string, message", tag = "1")]
    fields: HashMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, optional, tag = "3")]
    string_value: Option<String>,
}
