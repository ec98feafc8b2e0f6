//! Clients as they are written in the store.

use std::sync::Arc;

use anteroom_core::{RoomId, UnixMillis};
use anteroom_tokens::api_key::ApiKeyDigest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{ClientSecret, ClientTable, ClientTerms, OpenIdClient};
use anteroom_store::stored_value::StoredContent;

#[derive(Serialize, Deserialize)]
struct StoredClient {
    room: String,
    id: String,
    name: String,
    redirect_addresses: Vec<String>,
    is_public: bool,
    access_token_seconds: Option<u64>,
    id_token_seconds: Option<u64>,
    login_address: Option<String>,
    created_at: u64,
    is_from_file: bool,
    secrets: Vec<StoredSecret>,
}

#[derive(Serialize, Deserialize)]
struct StoredSecret {
    digest: String,
    created_at: u64,
    ends_at: Option<u64>,
}

impl StoredClient {
    fn of(client: &OpenIdClient) -> Self {
        let secrets = client.secrets.iter().map(|secret| StoredSecret {
            digest: STANDARD.encode(secret.digest.to_bytes()),
            created_at: secret.created_at.0,
            ends_at: secret.ends_at.map(|end| end.0),
        });
        Self {
            room: client.room.as_str().to_owned(),
            id: client.id.clone(),
            name: client.name.clone(),
            redirect_addresses: client.redirect_addresses.clone(),
            is_public: client.is_public,
            access_token_seconds: client.access_token_seconds,
            id_token_seconds: client.id_token_seconds,
            login_address: client.login_address.clone(),
            created_at: client.created_at.0,
            is_from_file: client.is_from_file,
            secrets: secrets.collect(),
        }
    }

    fn read(self) -> Option<OpenIdClient> {
        let secret = |stored: StoredSecret| {
            let digest = STANDARD.decode(stored.digest).ok()?.try_into().ok()?;
            Some(ClientSecret {
                digest: ApiKeyDigest::from_bytes(digest),
                created_at: UnixMillis(stored.created_at),
                ends_at: stored.ends_at.map(UnixMillis),
            })
        };
        Some(OpenIdClient {
            room: RoomId::parse(&self.room).ok()?,
            id: self.id,
            name: self.name,
            redirect_addresses: self.redirect_addresses,
            is_public: self.is_public,
            access_token_seconds: self.access_token_seconds,
            id_token_seconds: self.id_token_seconds,
            login_address: self.login_address,
            created_at: UnixMillis(self.created_at),
            is_from_file: self.is_from_file,
            secrets: self.secrets.into_iter().map(secret).collect::<Option<_>>()?,
        })
    }
}

impl StoredContent for ClientTable {
    const NAME: &'static str = "openid-clients";

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored: Vec<StoredClient> = serde_json::from_slice(bytes).ok()?;
        let mut table = Self::default();
        for client in stored {
            let client = client.read()?;
            table.rooms.entry(client.room.clone()).or_default().push(Arc::new(client));
        }
        Some(table)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let clients: Vec<StoredClient> =
            self.rooms.values().flatten().map(|client| StoredClient::of(client)).collect();
        serde_json::to_vec(&clients).expect("our own structures can be written as JSON")
    }
}

impl OpenIdClient {
    /// What an operator would have to say to make it again.
    pub(super) fn terms(&self) -> ClientTerms {
        ClientTerms {
            id: Some(self.id.clone()),
            name: Some(self.name.clone()),
            redirect_addresses: self.redirect_addresses.clone(),
            is_public: self.is_public,
            access_token_seconds: self.access_token_seconds,
            id_token_seconds: self.id_token_seconds,
            login_address: self.login_address.clone(),
        }
    }
}
