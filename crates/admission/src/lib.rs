//! What every front door does with a room: find it, open a ticket, join once, claim, sign a pass, redeem a code, check in to an
//! auction. The API, the gateway and the waiting pages share it, and none of them reaches through another.
//!
//! *Boundary:* it changes rooms through `RoomHandle` only and decides nothing; the rules are in `core`. It knows no HTTP.

pub mod arrivals;
pub mod auction;
mod directory;
mod error;
pub mod idempotent_joins;
pub mod join_ceiling;
pub mod openid;
mod passes;
mod presented_ticket;
mod room;
mod room_map;
pub mod signing_keys;
mod tickets;

use std::sync::Arc;

use anteroom_core::{RoomId, UnixMillis};
use anteroom_engine::Engine;
use anteroom_tokens::OpenIdSeals;
use anteroom_tokens::codes::Codes;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signer::Signer;

pub use crate::directory::RoomDirectory;
pub use crate::error::AdmissionError;
pub use crate::passes::{ClaimRequest, ClaimTerms, Pass, RefreshedToken, UnsignedSession};
pub use crate::presented_ticket::PresentedTicket;
pub use crate::room::RoomView;
pub use crate::room_map::{RoomLayer, RoomMap};
pub use crate::tickets::{Proof, StoreRefreshes, recognise};

use crate::auction::Auctions;
use crate::openid::clients::OpenIdClients;
use crate::signing_keys::SigningKeys;

/// What an [`Admission`] is made of.
pub struct AdmissionParts {
    /// The rooms.
    pub engine: Arc<Engine>,
    /// What tickets and codes are sealed with.
    pub secrets: Arc<MasterSecrets>,
    /// The keys that sign passes.
    pub keys: SigningKeys,
    /// The threads that sign them.
    pub signer: Signer,
    /// The sites that log visitors in by `OpenID`.
    pub openid_clients: Arc<OpenIdClients>,
    /// The issuer of rooms that have none of their own.
    pub default_issuer: String,
    /// The room of calls that name none.
    pub default_room: Option<RoomId>,
}

/// The rooms of this node as every front door sees them.
pub struct Admission {
    /// The rooms.
    pub engine: Arc<Engine>,
    /// What this node adds to each of them.
    pub rooms: RoomDirectory,
    /// The keys that sign passes.
    pub keys: SigningKeys,
    /// The threads that sign them.
    pub signer: Signer,
    /// The sites that log visitors in by `OpenID`.
    pub openid_clients: Arc<OpenIdClients>,
    /// What travels in addresses.
    pub codes: Codes,
    /// The rounds of rooms that hold auctions.
    pub auctions: Auctions,
    openid_seals: OpenIdSeals,
    /// What tickets are sealed with.
    secrets: Arc<MasterSecrets>,
    default_issuer: String,
    default_room: Option<RoomId>,
}

impl Admission {
    /// Knows every room that the engine has.
    pub fn new(parts: AdmissionParts) -> Self {
        let codes = Codes::new(&parts.secrets);
        let openid_seals = OpenIdSeals::new(&parts.secrets);
        let secrets = Arc::clone(&parts.secrets);
        let rooms = RoomDirectory::new(parts.secrets);
        rooms.follow(&parts.engine);
        Self {
            engine: parts.engine,
            secrets,
            rooms,
            keys: parts.keys,
            signer: parts.signer,
            openid_clients: parts.openid_clients,
            codes,
            auctions: Auctions::new(),
            openid_seals,
            default_issuer: parts.default_issuer,
            default_room: parts.default_room,
        }
    }

    /// The clock everything here goes by.
    pub fn now(&self) -> UnixMillis {
        self.engine.now()
    }

    /// The room of a name, exactly as it was written.
    pub fn room(&self, name: &str) -> Option<Arc<RoomView>> {
        self.rooms.get(name).or_else(|| {
            // Another node may have created it a moment ago.
            self.engine.room(name)?;
            self.rooms.follow(&self.engine);
            self.rooms.get(name)
        })
    }

    /// The name that a call means: the one it names, the configured default, or that of the only room there is.
    pub fn room_or_default(&self, name: Option<&str>) -> Option<Arc<RoomView>> {
        match (name, &self.default_room) {
            (Some(name), _) => self.room(name),
            (None, Some(default)) => self.room(default.as_str()),
            (None, None) => self.rooms.only_one(),
        }
    }
}
