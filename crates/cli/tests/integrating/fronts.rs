//! What stands before the site: the gateway itself, or a program that asks for verdicts.

use std::path::PathBuf;

use anteroom_testkit::{require, workspace_root};

/// One way to put Anteroom before a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    Gateway,
    Nginx,
    Caddy,
    Traefik,
    Haproxy,
    Envoy,
    EnvoyGrpc,
}

/// How Anteroom learns that the site has ended a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndOfVisit {
    /// The header `Anteroom-Session` of a response.
    Header,
    /// The proxy says so when this page is asked for.
    Page(&'static str),
    /// The site calls the private listener.
    Call,
}

impl Front {
    /// The name of the program, as it is looked for and said to be missing.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Gateway => "anteroom",
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Traefik => "traefik",
            Self::Haproxy => "haproxy",
            Self::Envoy | Self::EnvoyGrpc => "envoy",
        }
    }

    /// The directory of its recipe.
    pub(crate) fn recipe(self) -> &'static str {
        match self {
            // Has no proxy, and so uses any recipe's configuration of Anteroom.
            Self::Gateway => "nginx",
            other => other.program(),
        }
    }

    /// The arguments that its program is started with, in the directory of its files.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Gateway => &[],
            // Tests may run as root in a directory that is theirs alone.
            Self::Nginx if is_root() => {
                &["-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; user root;"]
            }
            Self::Nginx => &["-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off;"],
            Self::Caddy => &["run", "--config", "Caddyfile"],
            Self::Traefik => &["--configfile=traefik.yml"],
            Self::Haproxy => &["-f", "haproxy.cfg"],
            // Several of them run at once on this machine.
            Self::Envoy => &["-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1"],
            Self::EnvoyGrpc => &["-c", "envoy-grpc.yaml", "--disable-hot-restart", "--concurrency", "1"],
        }
    }

    /// How a visit ends behind it.
    pub(crate) fn end_of_visit(self) -> EndOfVisit {
        match self {
            Self::Gateway | Self::Haproxy | Self::Envoy | Self::EnvoyGrpc => EndOfVisit::Header,
            Self::Nginx => EndOfVisit::Page("/thanks"),
            Self::Caddy | Self::Traefik => EndOfVisit::Call,
        }
    }

    /// The status of a waiting page.
    pub(crate) fn waiting_status(self) -> u16 {
        if self == Self::Gateway { 200 } else { 429 }
    }

    /// The status of what is refused because it cannot wait.
    pub(crate) fn refusal_status(self) -> u16 {
        if self == Self::Gateway { 503 } else { 429 }
    }

    /// Its program; nothing when it is missing, and then the test is skipped. See [`require`].
    pub(crate) fn find(self) -> Option<PathBuf> {
        let installed = std::env::var_os("ANTEROOM_TEST_PROXIES")
            .map_or_else(|| workspace_root().join("target/test-proxies"), PathBuf::from);
        let places = match self {
            Self::Gateway => return Some(PathBuf::new()),
            Self::Nginx | Self::Haproxy => ["/usr/sbin", "/usr/bin", "/usr/local/sbin"]
                .map(|place| PathBuf::from(place).join(self.program()))
                .to_vec(),
            Self::Caddy | Self::Traefik => vec![installed.join("bin").join(self.program())],
            Self::Envoy | Self::EnvoyGrpc => vec![installed.join("envoy/_bin/envoy")],
        };
        let found = places.into_iter().find(|path| path.exists());
        if require(self.program(), found.is_some()) { found } else { None }
    }
}

/// Whether the tests run as root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
