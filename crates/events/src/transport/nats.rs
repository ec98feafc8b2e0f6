//! NATS JetStream: an event counts as delivered when the stream has acknowledged it.
//!
//! The id of an event is its `Nats-Msg-Id`, so a stream drops what is sent again within its duplicate window. One event is published after the
//! other: a stream keeps the order of arrival, and an event that failed must not be overtaken.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, context::PublishErrorKind, message::PublishMessage};
use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, Event};
use async_trait::async_trait;
use http::Uri;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::client::{URL_MAX_LENGTH, UrlError, in_words, reason};
use super::policy::{CONNECT_TIMEOUT, ConnectFailure, OutboundPolicy, Wire};
use super::{SendFailure, Transport, TransportError};
use crate::destination::NatsTarget;
use crate::message::EventMessage;

/// How many events one call takes.
pub(super) const NATS_BATCH_MAX: usize = 100;
/// The port of NATS.
const PORT: u16 = 4222;
/// The token that stands for no room in a subject.
const NO_ROOM: &str = "_server";
/// What credentials contain: a file with a JWT and a seed.
const CREDENTIALS_MARK: &str = "BEGIN NATS USER JWT";
/// What operators read when a connection broke off.
const CLOSED: &str = "connection closed before an answer";
/// What to show to servers that list their clients.
const CLIENT_NAME: &str = "anteroom";

/// The way to a stream.
pub(super) struct NatsTransport {
    host: String,
    port: u16,
    wire: Wire,
    subject_prefix: String,
    timeout: Duration,
    secret: Option<SecretString>,
    with_request_ids: bool,
    policy: Arc<OutboundPolicy>,
    /// The connection, as long as it works. Every new one resolves and checks the address again.
    connection: Mutex<Option<Connection>>,
}

/// A connection.
#[derive(Clone)]
struct Connection {
    context: jetstream::Context,
    /// Whether it broke off. It is not used again then, and what was published and not acknowledged has failed.
    is_lost: watch::Receiver<bool>,
}

impl NatsTransport {
    pub(super) fn new(
        target: &NatsTarget,
        secret: Option<SecretString>,
        with_request_ids: bool,
        policy: Arc<OutboundPolicy>,
    ) -> Result<Self, TransportError> {
        let (host, port, wire) = parse(&target.url)?;
        if !is_subject(&target.subject_prefix) {
            return Err(TransportError::SubjectPrefix);
        }
        Ok(Self {
            host,
            port,
            wire,
            subject_prefix: target.subject_prefix.clone(),
            timeout: target.timeout,
            secret,
            with_request_ids,
            policy,
            connection: Mutex::new(None),
        })
    }

    /// The connection that works, or a new one.
    async fn connection(&self) -> Result<Connection, SendFailure> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| !*connection.is_lost.borrow()) {
            return Ok(connection.clone());
        }
        *held = None;
        let connection = self.connect().await.map_err(SendFailure::new)?;
        Ok(held.insert(connection).clone())
    }

    async fn connect(&self) -> Result<Connection, String> {
        let resolving = self.policy.addresses(&self.host, self.port, self.wire);
        let addresses = timeout(CONNECT_TIMEOUT, resolving).await.unwrap_or(Err(ConnectFailure::Timeout));
        let mut last = "no connection".to_owned();
        for address in addresses.map_err(|failure| failure.to_string())? {
            // The address that was checked, and not the name, which would be resolved again.
            let scheme = if self.wire == Wire::Tls { "tls" } else { "nats" };
            let (sender, is_lost) = watch::channel(false);
            match self.options(sender)?.connect(format!("{scheme}://{address}")).await {
                Ok(client) => {
                    let context = jetstream::ContextBuilder::new().timeout(self.timeout).build(client);
                    return Ok(Connection { context, is_lost });
                }
                Err(error) => last = connect_reason(&error),
            }
        }
        Err(last)
    }

    fn options(&self, is_lost: watch::Sender<bool>) -> Result<ConnectOptions, String> {
        let is_lost = Arc::new(is_lost);
        let mut options = ConnectOptions::new()
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    is_lost.send_replace(true);
                }
                async {}
            })
            .name(CLIENT_NAME)
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(self.timeout))
            .require_tls(self.wire == Wire::Tls)
            .tls_client_config(self.tls()?)
            // Other servers that this one names have not been checked, and we connect again ourselves.
            .ignore_discovered_servers()
            .max_reconnects(Some(1));
        let Some(secret) = &self.secret else { return Ok(options) };
        let text = secret.expose_secret();
        if text.contains(CREDENTIALS_MARK) {
            options = options.credentials(text).map_err(|_| "the credentials cannot be read".to_owned())?;
        } else if let Some((user, password)) = text.split_once(':') {
            options = options.user_and_password(user.to_owned(), password.to_owned());
        } else {
            options = options.token(text.to_owned());
        }
        Ok(options)
    }

    /// TLS to an address, checked against the host's name.
    fn tls(&self) -> Result<ClientConfig, String> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|_| "the host name is none of TLS".to_owned())?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(self.policy.roots(), Arc::clone(&provider))
            .build()
            .map_err(|_| "there are no certificate authorities to trust".to_owned())?;
        let configuration = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions of TLS")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NamedVerifier { inner, name }))
            .with_no_client_auth();
        Ok(configuration)
    }

    async fn publish(&self, connection: &mut Connection, message: &EventMessage) -> Result<(), SendFailure> {
        let subject = self.subject(message);
        let mut payload = vec![];
        message.write_json(self.with_request_ids, &mut payload);
        let publish = PublishMessage::build().message_id(&*message.id).payload(payload.into());
        let context = &connection.context;
        let published = async { context.send_publish(subject, publish).await?.await };
        let published = tokio::select! {
            published = timeout(self.timeout, published) => published,
            // A client waits for acknowledgements of a lost connection until the time limit.
            _ = connection.is_lost.wait_for(|is_lost| *is_lost) => return Err(SendFailure::new(CLOSED)),
        };
        match published {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(match error.kind() {
                PublishErrorKind::StreamNotFound => {
                    SendFailure::new("no stream takes the subject of the event")
                }
                PublishErrorKind::TimedOut => self.in_vain(),
                PublishErrorKind::BrokenPipe => SendFailure::new(CLOSED),
                PublishErrorKind::MaxPayloadExceeded => SendFailure {
                    is_too_large: true,
                    ..SendFailure::new("the event is larger than the server takes")
                },
                _ => SendFailure::new("the stream did not take the event"),
            }),
            Err(_) => Err(self.in_vain()),
        }
    }

    fn in_vain(&self) -> SendFailure {
        SendFailure::new(format!("no answer within {}", in_words(self.timeout)))
    }

    fn subject(&self, message: &EventMessage) -> String {
        let room = message.room.as_ref().map_or_else(|| NO_ROOM.to_owned(), |room| room_token(room.as_str()));
        format!("{}.{room}.{}", self.subject_prefix, message.kind.as_str())
    }
}

#[async_trait]
impl Transport for NatsTransport {
    fn batch_max(&self) -> usize {
        NATS_BATCH_MAX
    }

    async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure> {
        let mut connection = self.connection().await?;
        for (delivered, message) in messages.iter().enumerate() {
            if let Err(failure) = self.publish(&mut connection, message).await {
                return Err(SendFailure { delivered, ..failure });
            }
        }
        Ok(())
    }
}

/// A room as one token of a subject: a dot would make two of it, and a room may be called like [`NO_ROOM`]. No room's name has a `%`, so two
/// rooms never have the same token.
fn room_token(room: &str) -> String {
    let token = room.replace('.', "%2E");
    if token == NO_ROOM { token.replacen('_', "%5F", 1) } else { token }
}

fn is_subject(text: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic() && !b"*>".contains(&byte))
    };
    text.split('.').all(is_token)
}

/// Host, port, and whether TLS is asked for.
pub(super) fn parse(url: &str) -> Result<(String, u16, Wire), UrlError> {
    let uri: Uri = url.parse().map_err(|_| UrlError::Syntax)?;
    if url.len() > URL_MAX_LENGTH || url.contains(['#', '?']) || !matches!(uri.path(), "" | "/") {
        return Err(UrlError::Syntax);
    }
    let wire = match uri.scheme_str() {
        Some("nats") => Wire::ClearText,
        Some("tls") => Wire::Tls,
        _ => return Err(UrlError::Scheme("nats:// or tls://")),
    };
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(UrlError::UserInfo),
        Some(authority) if !authority.host().is_empty() => {
            Ok((authority.host().to_owned(), uri.port_u16().unwrap_or(PORT), wire))
        }
        _ => Err(UrlError::Host),
    }
}

fn connect_reason(error: &ConnectError) -> String {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "the server did not accept the credentials".to_owned()
        }
        ConnectErrorKind::TimedOut => ConnectFailure::Timeout.to_string(),
        _ => match error.source() {
            Some(source) => reason(source),
            None => "no connection".to_owned(),
        },
    }
}

/// Checks a certificate against the name that the operator wrote, whatever address is connected to.
#[derive(Debug)]
struct NamedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for NamedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.inner.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_one_token_and_no_two_rooms_share_one() {
        assert_eq!(room_token("Sample-1_a"), "Sample-1_a");
        assert_eq!(room_token("shop.eu"), "shop%2Eeu");
        assert_eq!(room_token("shop_eu"), "shop_eu");
        assert_eq!(room_token("_server"), "%5Fserver");
    }

    #[test]
    fn addresses_and_prefixes_are_checked() {
        assert_eq!(parse("nats://stream.example"), Ok(("stream.example".into(), 4222, Wire::ClearText)));
        assert_eq!(parse("tls://[::1]:4333"), Ok(("[::1]".into(), 4333, Wire::Tls)));
        for (url, expected) in [
            ("stream.example:4222", UrlError::Scheme("nats:// or tls://")),
            ("ws://stream.example", UrlError::Scheme("nats:// or tls://")),
            ("nats://user:secret@stream.example", UrlError::UserInfo),
            ("nats://stream.example/a", UrlError::Syntax),
            ("nats://stream.example?token=secret", UrlError::Syntax),
        ] {
            assert_eq!(parse(url), Err(expected), "{url}");
        }
        assert!(is_subject("events") && is_subject("shop.events"));
        for prefix in ["", ".", "a.", ".a", "a b", "a.*", ">", "a\r\n", "é"] {
            assert!(!is_subject(prefix), "{prefix:?}");
        }
    }
}
