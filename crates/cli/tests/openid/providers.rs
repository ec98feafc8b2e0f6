//! The providers at which clients log their visitors in, and what a client must know of one.

use crate::anteroom::Anteroom;
use crate::clients::{Client, site_url};
use crate::reference_provider::ReferenceProvider;

/// The name of every client, which is the name of the room: how an adapter of AWS had it, and what ours does by default.
pub(crate) const CLIENT_ID: &str = "shop";

/// What clients take to be signed with when nobody says otherwise.
pub(crate) const RS256: &str = "RS256";

/// How a client shows the token endpoint who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// The secret in the header `Authorization`.
    Basic,
    /// The secret in the form.
    Post,
    /// No secret: a public client.
    None,
}

impl Authentication {
    /// Its name in the programs of the tests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Post => "post",
            Self::None => "none",
        }
    }

    /// Its name in `OpenID`.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }
}

/// One of the ways in which a client can log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) authentication: Authentication,
    /// Whether the code is bound to the client's own secret of this login (S256).
    pub(crate) has_pkce: bool,
}

/// What a client is told of its provider.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) issuer: String,
    /// Empty for a public client.
    pub(crate) secret: String,
    /// The port of the issuer.
    pub(crate) port: u16,
    /// What it signs with.
    pub(crate) algorithm: &'static str,
}

/// A provider that serves one visitor at a time, and has one client.
pub(crate) trait Provider: std::fmt::Debug {
    /// What the client must know.
    fn registration(&self) -> &Registration;

    /// Ends the visit of the visitor with this `sub`.
    fn end_visit(&self, subject: &str);

    /// Lets visitors who wait without a login be sent on to this address.
    fn allow_return(&self, address: &str);

    /// Whether the end of a visit is the end of its tokens.
    fn ends_tokens(&self) -> bool;

    /// What in the recipes stands for another provider, and what must stand there for this one.
    fn recipe_edits(&self) -> &'static [(&'static str, &'static str)];

    /// What it has written.
    fn log(&self) -> String;
}

/// Which provider a test runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// As it is when nothing is set: its tokens are signed with RS256.
    Anteroom,
    /// The same with ES256.
    AnteroomWithEs256,
    Reference,
}

impl Which {
    /// Starts it for a client that logs in in this way, and listens at this port; nothing when it is missing.
    #[track_caller]
    pub(crate) fn open(self, client: Client, mode: Mode, port: u16) -> Option<Box<dyn Provider>> {
        let redirect_address = format!("{}{}", site_url(port), client.redirect_path());
        let redirect_address = redirect_address.as_str();
        let anteroom = |algorithm| match client.recipe() {
            Some(recipe) => Anteroom::of_recipe(mode, recipe, port, algorithm, &[]),
            None => Anteroom::open(mode, redirect_address, algorithm),
        };
        match self {
            Self::Anteroom => Some(Box::new(anteroom(RS256))),
            Self::AnteroomWithEs256 => Some(Box::new(anteroom("ES256"))),
            Self::Reference => {
                ReferenceProvider::open(mode, redirect_address).map(|provider| Box::new(provider) as _)
            }
        }
    }
}
