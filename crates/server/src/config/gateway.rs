//! Kinds of the gateway's settings: origins, and how they are spoken to.

use std::path::Path;

use anteroom_proxy::{
    ForwardedPolicy, HealthCheck, Http2ToOrigin, OriginAddress, OriginTrust, ProxySettings,
};
use anyhow::Context;
use http::uri::PathAndQuery;

use super::Config;
use super::kinds::{Kind, Raw, Refusal};

/// How many origins may share the requests of a site.
const ORIGINS_MAX: usize = 64;

/// One origin or several, with commas between them.
pub struct OriginList;

impl Kind for OriginList {
    type Value = Vec<OriginAddress>;
    fn expected() -> String {
        "the address of your site, such as \"http://127.0.0.1:3000\", or several with commas between them"
            .to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<Vec<OriginAddress>, Refusal> {
        let addresses = raw.text()?.split(',').map(|text| {
            text.trim().parse::<OriginAddress>().map_err(|error| Refusal::Because(error.to_string()))
        });
        let addresses: Vec<OriginAddress> = addresses.collect::<Result<_, _>>()?;
        if addresses.len() > ORIGINS_MAX {
            return Err(Refusal::Because(format!("at most {ORIGINS_MAX} origins can share a site")));
        }
        Ok(addresses)
    }
}

/// A path with a query, beginning with a slash.
pub struct RequestPath;

impl Kind for RequestPath {
    type Value = PathAndQuery;
    fn expected() -> String {
        "a path that begins with a slash, such as \"/healthz\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<PathAndQuery, Refusal> {
        let text = raw.text()?;
        if !text.starts_with('/') {
            return Err(Refusal::Unexpected);
        }
        text.parse().map_err(|_| Refusal::Unexpected)
    }
}

/// A kind that is one of a few words.
macro_rules! one_of {
    ($(#[doc = $documentation:literal])+ $kind:ident -> $value:ty { $($word:literal => $meaning:expr),+ $(,)? }) => {
        $(#[doc = $documentation])+
        pub struct $kind;

        impl Kind for $kind {
            type Value = $value;
            fn expected() -> String {
                [$(concat!("\"", $word, "\"")),+].join(", ")
            }
            fn read(raw: Raw<'_>) -> Result<$value, Refusal> {
                match raw.text()? {
                    $($word => Ok($meaning),)+
                    _ => Err(Refusal::Unexpected),
                }
            }
        }
    };
}

one_of! {
    /// [`Http2ToOrigin`] as a kind.
    OriginHttp2 -> Http2ToOrigin {
        "never" => Http2ToOrigin::Never,
        "auto" => Http2ToOrigin::Auto,
        "always" => Http2ToOrigin::Always,
    }
}

one_of! {
    /// [`ForwardedPolicy`] as a kind.
    Forwarding -> ForwardedPolicy {
        "replace" => ForwardedPolicy::Replace,
        "append" => ForwardedPolicy::Append,
        "remove" => ForwardedPolicy::Remove,
    }
}

one_of! {
    /// Whether a host that no room names is passed on.
    UnknownHosts -> bool {
        "refuse" => false,
        "pass" => true,
    }
}

impl Config {
    /// How origins are spoken to.
    pub(crate) fn proxy_settings(&self) -> anyhow::Result<ProxySettings> {
        let health = self.origin_health_path.clone().map(|path| HealthCheck {
            interval: self.origin_health_interval_seconds,
            ..HealthCheck::new(path)
        });
        let trust = match &self.origin_tls_ca {
            Some(file) => OriginTrust::Roots(roots(file)?),
            None => OriginTrust::System,
        };
        Ok(ProxySettings {
            connect_timeout: self.origin_connect_timeout_seconds,
            response_timeout: self.origin_response_timeout_seconds,
            idle_timeout: self.origin_idle_timeout_seconds,
            connections_max: usize::try_from(self.origin_connections_max)?,
            without_visit_percent: usize::try_from(self.origin_connections_without_visit_percent)?,
            connections_per_visit_max: usize::try_from(self.origin_connections_per_visit_max)?,
            uploads_max: usize::try_from(self.uploads_max)?,
            uploads_per_client_max: usize::try_from(self.uploads_per_client_max)?,
            upload_rate_min: self.upload_bytes_per_second_min,
            upload_timeout: self.upload_timeout_seconds,
            http2: self.origin_http2,
            forwarded: self.forwarded_headers,
            health,
            preserve_host: self.origin_preserve_host,
            trust,
            ..ProxySettings::default()
        })
    }
}

/// Those who vouch for origins, from a PEM file.
fn roots(file: &Path) -> anyhow::Result<rustls::RootCertStore> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let context = || format!("the certificates of origin_tls_ca, {}, cannot be used", file.display());
    for certificate in CertificateDer::pem_file_iter(file).with_context(context)? {
        roots.add(certificate.with_context(context)?).with_context(context)?;
    }
    anyhow::ensure!(!roots.is_empty(), "there is no certificate in {}", file.display());
    Ok(roots)
}
