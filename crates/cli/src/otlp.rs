//! The way of spans to a collector: OTLP over HTTP, in protobuf, to `otlp_endpoint`.
//!
//! A thread of the SDK gathers spans and sends them in batches; its queue is bounded, and what does not fit is dropped, so a slow
//! collector slows no visitor. Which traces are exported is for `OTEL_TRACES_SAMPLER`, as in every program with this SDK.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anteroom_server::TRACE_TARGET;
use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use crate::http_client::{ClientError, ClientOptions, HttpClient, Reply};

/// What spans call this program, unless `OTEL_SERVICE_NAME` says otherwise.
const SERVICE_NAME: &str = "anteroom";
/// Where an endpoint takes spans.
const TRACES_PATH: &str = "/v1/traces";

/// Everything on the way. What is left in it is sent when it is dropped, so it must not be dropped on a thread of the runtime.
pub(crate) struct Export(SdkTracerProvider);

impl Export {
    /// Begins to export to the collector at this address, with the help of a runtime.
    pub(crate) fn start(endpoint: &str, runtime: &Handle) -> anyhow::Result<Self> {
        let client = HttpClient::new(&ClientOptions::new(endpoint))
            .with_context(|| format!("otlp_endpoint {endpoint} cannot be used"))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Courier { client, runtime: runtime.clone(), is_failing: Arc::default() })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{endpoint}{TRACES_PATH}"))
            .build()
            .with_context(|| format!("otlp_endpoint {endpoint} cannot be used"))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE_NAME);
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Self(provider))
    }

    /// What turns our spans, and no others, into those of OpenTelemetry.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(SERVICE_NAME))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target(TRACE_TARGET, LevelFilter::INFO))
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "spans could not be exported to their end");
        }
    }
}

/// Takes batches to the collector. The thread that gathers them knows no runtime, so the way is a task of ours.
struct Courier {
    client: HttpClient,
    runtime: Handle,
    /// Whether the last batch was lost, which is said once.
    is_failing: Arc<AtomicBool>,
}

impl fmt::Debug for Courier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Courier({})", self.client.target())
    }
}

#[async_trait]
impl opentelemetry_http::HttpClient for Courier {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, is_failing) = (self.client.clone(), Arc::clone(&self.is_failing));
        let (parts, body) = request.into_parts();
        let (sender, receiver) = oneshot::channel::<Result<Response<Bytes>, ClientError>>();
        self.runtime.spawn(async move {
            // The client puts the address of the endpoint before it.
            let reply = client.request(parts.method, TRACES_PATH, parts.headers, Some(body)).await;
            note(&reply, &is_failing);
            let _gone = sender.send(reply.map(|reply| {
                let mut response = Response::new(reply.body);
                *response.status_mut() = reply.status;
                *response.headers_mut() = reply.headers;
                response
            }));
        });
        Ok(receiver.await??)
    }
}

/// Logs that spans begin to be lost, and that they are taken again.
fn note(reply: &Result<Reply, ClientError>, is_failing: &AtomicBool) {
    let problem = match reply {
        Ok(reply) if reply.status.is_success() => None,
        Ok(reply) => Some(reply.status.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match (problem, is_failing.load(Ordering::Relaxed)) {
        (Some(problem), false) => tracing::warn!(problem, "collector does not take spans, dropping them"),
        (None, true) => tracing::info!("collector takes spans again"),
        _ => return,
    }
    is_failing.fetch_xor(true, Ordering::Relaxed);
}
