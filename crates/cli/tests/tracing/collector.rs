//! A collector that keeps what it gets: OTLP over HTTP, in protobuf.

use std::fmt::Write;
use std::time::Duration;

use anteroom_testkit::{Reply, Site, wait_for};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// How long a span may take to arrive. Generous: what is tested is that it comes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The collector, on a port of loopback.
pub(crate) struct Collector(Site);

/// A span as it was exported.
#[derive(Debug, Clone)]
pub(crate) struct Exported {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty where it has none.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) service: String,
    began_at: u64,
    attributes: Vec<(String, String)>,
}

impl Exported {
    /// An attribute as text; empty without it.
    pub(crate) fn attribute(&self, key: &str) -> &str {
        self.attributes.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value.as_str())
    }
}

impl Collector {
    #[track_caller]
    pub(crate) fn open() -> Self {
        let site = Site::open();
        // An empty answer in protobuf says that all was taken.
        site.answer("/v1/traces", Reply::new(200).header("Content-Type", "application/x-protobuf"));
        Self(site)
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Everything that was sent so far, as it was sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.request_log().into_iter().flat_map(|request| request.body).collect()
    }

    /// Every span so far.
    pub(crate) fn spans(&self) -> Vec<Exported> {
        let log = self.0.request_log();
        let of_request = |body: &[u8]| {
            let request = ExportTraceServiceRequest::decode(body).expect("an export in protobuf");
            request.resource_spans.into_iter().flat_map(|resource| {
                let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
                let service = attributes.into_iter().find(|attribute| attribute.key == "service.name");
                let service = service.map(|attribute| text(attribute.value.and_then(|value| value.value)));
                let service = service.unwrap_or_default();
                let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                spans.map(move |span| exported(span, &service)).collect::<Vec<_>>()
            })
        };
        log.iter().flat_map(|request| of_request(&request.body).collect::<Vec<_>>()).collect()
    }

    /// Waits for the span of a request by what it is like; returns it, and its phases in order.
    #[track_caller]
    pub(crate) fn request(&self, what: &str, fits: impl Fn(&Exported) -> bool) -> (Exported, Vec<Exported>) {
        wait_for(&format!("a span of {what}"), TIMEOUT, || {
            let spans = self.spans();
            let request =
                spans.iter().find(|span| !span.attribute("http.request.method").is_empty() && fits(span))?;
            let mut phases: Vec<Exported> =
                spans.iter().filter(|span| span.parent == request.id).cloned().collect();
            phases.sort_by_key(|phase| phase.began_at);
            // The request ends last, so all of its phases have been exported before it or with it.
            Some((request.clone(), phases))
        })
    }
}

fn exported(span: Span, service: &str) -> Exported {
    let attributes = span.attributes.into_iter().map(|attribute| {
        let value = attribute.value.and_then(|value| value.value);
        (attribute.key, text(value))
    });
    Exported {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        service: service.to_owned(),
        began_at: span.start_time_unix_nano,
        attributes: attributes.collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a text takes everything");
    }
    text
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}
