//! The clients of `OpenID`: sites that let their visitors log in by waiting. Each belongs to a room and may get visitors back at
//! registered addresses only. A client with a secret proves itself by it; of a secret only a digest is kept.
//!
//! All clients of all rooms are one value of the store. They go with their room: a room made again under the same name begins
//! without any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anteroom_core::{Grant, RoomId, UnixMillis};
use anteroom_engine::{Engine, EngineError};
use anteroom_store::{AuditRecord, Store};
use anteroom_tokens::api_key::{self, ApiKeyDigest};
use arc_swap::ArcSwap;

use crate::openid::redirect;
use anteroom_store::stored_value::{StoredContent, StoredValue, StoredValueError};

mod stored;
mod terms;
#[cfg(test)]
mod tests;

pub use self::terms::{CLIENT_NAME_MAX_CHARACTERS, ClientTerms, FieldProblem, REDIRECT_ADDRESSES_MAX};

/// How many clients a room may have. Finding out whose pseudonym a subject is tries each of them.
pub const CLIENTS_PER_ROOM_MAX: usize = 64;
/// How large the value may become in which all clients of all rooms lie, in bytes.
pub const CLIENTS_VALUE_MAX_BYTES: usize = 1024 * 1024;
/// How many secrets of a client work at a time: the present one, and the one before while the site changes over.
pub const CLIENT_SECRETS_MAX: usize = 2;
/// The shortest secret that is taken from operators: short ones can be guessed.
pub const CLIENT_SECRET_MIN_CHARACTERS: usize = 16;
/// The longest one.
pub const CLIENT_SECRET_MAX_CHARACTERS: usize = 256;
/// What generated secrets are marked with, beside the beginning of all our keys: `ar_client_…`.
const SECRET_KIND: &str = "client";
/// Who makes the changes of the configuration file, as the audit calls it.
const FILE_ACTOR: &str = "configuration file";

/// A client.
#[derive(Debug, Clone)]
pub struct OpenIdClient {
    /// The room in whose line its visitors wait.
    pub room: RoomId,
    /// Its `client_id`; a name of the same form as a room's.
    pub id: String,
    /// What visitors are shown.
    pub name: String,
    /// Where it gets visitors back; see [`Self::accepts_redirect`].
    pub redirect_addresses: Vec<String>,
    /// Whether it has no secret, and must use PKCE.
    pub is_public: bool,
    /// How long its access tokens live at most.
    pub access_token_seconds: Option<u64>,
    /// How long its ID tokens live at most.
    pub id_token_seconds: Option<u64>,
    /// The page of the site at which a login begins.
    pub login_address: Option<String>,
    /// When it was made.
    pub created_at: UnixMillis,
    /// Whether the configuration file names it; then only the file changes it.
    pub is_from_file: bool,
    /// The newest first.
    secrets: Vec<ClientSecret>,
}

/// A secret as it is kept.
#[derive(Debug, Clone)]
pub struct ClientSecret {
    digest: ApiKeyDigest,
    /// When it was made.
    pub created_at: UnixMillis,
    /// When it stops working, if that is known.
    pub ends_at: Option<UnixMillis>,
}

impl ClientSecret {
    fn works(&self, now: UnixMillis) -> bool {
        self.ends_at.is_none_or(|end| now < end)
    }
}

impl OpenIdClient {
    /// A client without a secret, or what is wrong with its terms.
    pub fn new(room: RoomId, terms: ClientTerms, now: UnixMillis) -> Result<Self, FieldProblem> {
        if let Some(problem) = terms.problems().into_iter().next() {
            return Err(problem);
        }
        let id = terms.id.unwrap_or_else(|| room.as_str().to_owned());
        Ok(Self {
            room,
            name: terms.name.unwrap_or_else(|| id.clone()),
            id,
            redirect_addresses: terms.redirect_addresses,
            is_public: terms.is_public,
            access_token_seconds: terms.access_token_seconds,
            id_token_seconds: terms.id_token_seconds,
            login_address: terms.login_address,
            created_at: now,
            is_from_file: false,
            secrets: vec![],
        })
    }

    /// Whether visitors may be sent back to that address: one that is registered, character by character, but for the port of a
    /// loopback address.
    pub fn accepts_redirect(&self, address: &str) -> bool {
        self.redirect_addresses.iter().any(|registered| redirect::is_same_address(registered, address))
    }

    /// Whether that is a secret of this client. Every one is compared, so that the time taken says nothing about which one matched.
    pub fn accepts_secret(&self, secret: &str, now: UnixMillis) -> bool {
        let shown = ApiKeyDigest::of(secret);
        let matching = |secret: &ClientSecret| secret.digest.equals(&shown) & secret.works(now);
        self.secrets.iter().fold(false, |found, secret| found | matching(secret))
    }

    /// What sessions remember of the client that a grant is for: the first 8 bytes of the SHA-256 of its id.
    pub fn tag(&self) -> u64 {
        let digest = ApiKeyDigest::of(&self.id).to_bytes();
        digest[..8].iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte))
    }

    /// Whether a login is one of this client: not of another, and not of one that had its id before and was deleted.
    pub fn is_own_grant(&self, grant: &Grant) -> bool {
        grant.client == self.tag() && self.may_have_issued_at(grant.issued_at)
    }

    /// Whether a code of that moment can be for this client, and not for one that had its id before.
    pub(super) fn may_have_issued_at(&self, issued_at: UnixMillis) -> bool {
        issued_at >= self.created_at
    }

    /// The secrets that work, without what they are; the newest first.
    pub fn secrets(&self, now: UnixMillis) -> impl Iterator<Item = &ClientSecret> {
        self.secrets.iter().filter(move |secret| secret.works(now))
    }

    /// Gives it a new secret. The one before goes on until `previous_ends_at`, or until the next one if no end is given.
    fn add_secret(&mut self, digest: ApiKeyDigest, now: UnixMillis, previous_ends_at: Option<UnixMillis>) {
        self.secrets.retain(|secret| secret.works(now));
        for previous in &mut self.secrets {
            previous.ends_at = [previous.ends_at, previous_ends_at].into_iter().flatten().min();
        }
        self.secrets.retain(|secret| secret.works(now));
        self.secrets.insert(0, ClientSecret { digest, created_at: now, ends_at: None });
        self.secrets.truncate(CLIENT_SECRETS_MAX);
    }
}

/// Why a client was not made, changed or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// One of its fields.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// There is one of that id.
    #[error("the room has a client of that id; delete it first, or choose another id")]
    IdTaken,
    /// No such client.
    #[error("the room has no client of that id")]
    Unknown,
    /// See [`CLIENTS_PER_ROOM_MAX`].
    #[error("the room has {CLIENTS_PER_ROOM_MAX} clients; delete some first")]
    TooMany,
    /// See [`CLIENTS_VALUE_MAX_BYTES`].
    #[error("the clients of all rooms take {CLIENTS_VALUE_MAX_BYTES} bytes; delete some first")]
    TooMuch,
    /// It is changed where it was made.
    #[error("the client is from the configuration file; change it there and restart")]
    FromFile,
    /// It has none.
    #[error("the client is public and has no secret")]
    Public,
    /// There is only one.
    #[error("the client has no secret beside its present one")]
    NoPreviousSecret,
    /// The value was not read or replaced.
    #[error(transparent)]
    Value(#[from] StoredValueError),
    /// Whether the room is there cannot be said.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The clients of a room as the configuration file wants them.
#[derive(Debug, Clone)]
pub struct FileRoom {
    /// The room.
    pub room: RoomId,
    /// All its clients of the file.
    pub clients: Vec<FileClient>,
}

/// A client as the configuration file wants it.
#[derive(Debug, Clone)]
pub struct FileClient {
    /// What it is like.
    pub terms: ClientTerms,
    /// Its secrets: none of a public client, otherwise the present one, and perhaps the one before.
    pub secrets: Vec<ApiKeyDigest>,
}

/// All clients, in memory as in the store.
pub struct OpenIdClients {
    value: StoredValue<ClientTable>,
    /// The rooms of this node's configuration file, which alone changes its clients of these.
    file_rooms: ArcSwap<BTreeSet<RoomId>>,
}

/// Clients by room, in the order in which they were made.
#[derive(Default)]
pub(crate) struct ClientTable {
    rooms: BTreeMap<RoomId, Vec<Arc<OpenIdClient>>>,
}

impl OpenIdClients {
    /// Reads them.
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, StoredValueError> {
        Ok(Self { value: StoredValue::open(store).await?, file_rooms: ArcSwap::default() })
    }

    /// Reads them again, for a store that was restored or changed by another node.
    pub async fn reload(&self) -> Result<(), StoredValueError> {
        self.value.reload().await
    }

    /// The client of that id.
    pub fn find(&self, room: &RoomId, client_id: &str) -> Option<Arc<OpenIdClient>> {
        let table = self.value.get();
        table.rooms.get(room)?.iter().find(|client| client.id == client_id).cloned()
    }

    /// All clients of a room, in the order in which they were made.
    pub fn of_room(&self, room: &RoomId) -> Vec<Arc<OpenIdClient>> {
        self.value.get().rooms.get(room).cloned().unwrap_or_default()
    }

    /// Makes a client, and its secret unless it is public; the secret is in clear for the only time.
    pub async fn create(
        &self,
        room: &RoomId,
        terms: ClientTerms,
        actor: &str,
        now: UnixMillis,
    ) -> Result<(Arc<OpenIdClient>, Option<String>), ClientError> {
        let mut client = OpenIdClient::new(room.clone(), terms, now)?;
        let secret = (!client.is_public).then(|| api_key::generate(SECRET_KIND));
        if let Some(secret) = &secret {
            client.add_secret(ApiKeyDigest::of(secret), now, None);
        }
        let kind = if client.is_public { "public client" } else { "client" };
        let audit = record(now, room, actor, &format!("create {kind} {}", client.id))
            .with_detail(&client.redirect_addresses.join(" "));
        let client = Arc::new(client);
        self.value
            .replace(&audit, |table| {
                let clients = table.rooms.entry(room.clone()).or_default();
                if clients.iter().any(|other| other.id == client.id) {
                    return Err(ClientError::IdTaken);
                }
                clients.push(Arc::clone(&client));
                table.check_bounds()
            })
            .await?;
        Ok((client, secret))
    }

    /// Gives a client a new secret, in clear for the only time. The one before goes on until `previous_ends_at`, or until the next
    /// rotation if no end is given.
    pub async fn rotate_secret(
        &self,
        (room, id): (&RoomId, &str),
        previous_ends_at: Option<UnixMillis>,
        actor: &str,
        now: UnixMillis,
    ) -> Result<(Arc<OpenIdClient>, String), ClientError> {
        let secret = api_key::generate(SECRET_KIND);
        let audit = record(now, room, actor, &format!("rotate secret of client {id}"));
        let client = self
            .value
            .replace(&audit, |table| {
                let client = self.changeable(table, room, id)?;
                if client.is_public {
                    return Err(ClientError::Public);
                }
                Arc::make_mut(client).add_secret(ApiKeyDigest::of(&secret), now, previous_ends_at);
                let client = Arc::clone(client);
                table.check_bounds()?;
                Ok(client)
            })
            .await?;
        Ok((client, secret))
    }

    /// Ends every secret of a client but the newest.
    pub async fn revoke_previous_secret(
        &self,
        (room, id): (&RoomId, &str),
        actor: &str,
        now: UnixMillis,
    ) -> Result<(), ClientError> {
        let audit = record(now, room, actor, &format!("revoke previous secret of client {id}"));
        self.value
            .replace(&audit, |table| {
                let client = Arc::make_mut(self.changeable(table, room, id)?);
                if client.secrets(now).count() < CLIENT_SECRETS_MAX {
                    return Err(ClientError::NoPreviousSecret);
                }
                client.secrets.truncate(1);
                Ok(())
            })
            .await
    }

    /// Deletes a client.
    pub async fn delete(
        &self,
        (room, id): (&RoomId, &str),
        actor: &str,
        now: UnixMillis,
    ) -> Result<(), ClientError> {
        let audit = record(now, room, actor, &format!("delete client {id}"));
        self.value
            .replace(&audit, |table| {
                self.changeable(table, room, id)?;
                table.retain(room, |client| client.id != id);
                Ok(())
            })
            .await
    }

    /// Deletes the clients of a room that is no more.
    pub async fn delete_of_room(
        &self,
        room: &RoomId,
        actor: &str,
        now: UnixMillis,
    ) -> Result<(), ClientError> {
        let audit = record(now, room, actor, "delete clients of the deleted room");
        self.value
            .replace(&audit, |table| {
                table.rooms.remove(room);
                Ok(())
            })
            .await
    }

    /// Deletes what is left of the clients of a deleted room, before another is made under its name. One that was lost with its store
    /// keeps them.
    pub async fn clear_for_new_room(
        &self,
        engine: &Engine,
        room: &RoomId,
        actor: &str,
    ) -> Result<(), ClientError> {
        let was_deleted = engine.store().trace(room).await.map_err(EngineError::from)?.is_some();
        if was_deleted && engine.find_room(room).await?.is_none() {
            self.delete_of_room(room, actor, engine.now()).await?;
        }
        Ok(())
    }

    /// Makes the clients of the file's rooms what the file says. Those that it made in these rooms and names no more are deleted;
    /// one of the same id that was made by hand becomes the file's.
    pub async fn apply_file(&self, rooms: &[FileRoom], now: UnixMillis) -> Result<(), ClientError> {
        for FileRoom { room, clients } in rooms {
            let wanted = clients
                .iter()
                .map(|client| client.as_client(room, now))
                .collect::<Result<Vec<OpenIdClient>, FieldProblem>>()?;
            let ids: Vec<&str> = wanted.iter().map(|client| client.id.as_str()).collect();
            let audit = record(now, room, FILE_ACTOR, "set clients of the file").with_detail(&ids.join(" "));
            self.value
                .replace(&audit, |table| {
                    table.retain(room, |client| !client.is_from_file || ids.contains(&client.id.as_str()));
                    for client in &wanted {
                        table.set_from_file(client.clone());
                    }
                    table.check_bounds()
                })
                .await?;
        }
        self.file_rooms.store(Arc::new(rooms.iter().map(|file| file.room.clone()).collect()));
        Ok(())
    }

    /// A client that may be changed other than by the file.
    fn changeable<'a>(
        &self,
        table: &'a mut ClientTable,
        room: &RoomId,
        id: &str,
    ) -> Result<&'a mut Arc<OpenIdClient>, ClientError> {
        let clients = table.rooms.get_mut(room).ok_or(ClientError::Unknown)?;
        let client = clients.iter_mut().find(|client| client.id == id).ok_or(ClientError::Unknown)?;
        if client.is_from_file && self.file_rooms.load().contains(room) {
            return Err(ClientError::FromFile);
        }
        Ok(client)
    }
}

impl FileClient {
    fn as_client(&self, room: &RoomId, now: UnixMillis) -> Result<OpenIdClient, FieldProblem> {
        let mut client = OpenIdClient::new(room.clone(), self.terms.clone(), now)?;
        client.is_from_file = true;
        for digest in self.secrets.iter().take(CLIENT_SECRETS_MAX).rev() {
            client.add_secret(digest.clone(), now, None);
        }
        Ok(client)
    }
}

impl ClientTable {
    fn retain(&mut self, room: &RoomId, keep: impl Fn(&OpenIdClient) -> bool) {
        if let Some(clients) = self.rooms.get_mut(room) {
            clients.retain(|client| keep(client));
            if clients.is_empty() {
                self.rooms.remove(room);
            }
        }
    }

    /// Puts a client of the file where one of its id is, or at the end. What was there before keeps its times.
    fn set_from_file(&mut self, mut client: OpenIdClient) {
        let clients = self.rooms.entry(client.room.clone()).or_default();
        match clients.iter_mut().find(|other| other.id == client.id) {
            Some(before) => {
                client.created_at = before.created_at;
                for secret in &mut client.secrets {
                    let same = before.secrets.iter().find(|other| other.digest.equals(&secret.digest));
                    secret.created_at = same.map_or(secret.created_at, |same| same.created_at);
                }
                *before = Arc::new(client);
            }
            None => clients.push(Arc::new(client)),
        }
    }

    fn check_bounds(&self) -> Result<(), ClientError> {
        if self.rooms.values().any(|clients| clients.len() > CLIENTS_PER_ROOM_MAX) {
            return Err(ClientError::TooMany);
        }
        if self.to_bytes().len() > CLIENTS_VALUE_MAX_BYTES {
            return Err(ClientError::TooMuch);
        }
        Ok(())
    }
}

fn record(now: UnixMillis, room: &RoomId, actor: &str, action: &str) -> AuditRecord {
    AuditRecord::new(now, Some(room.clone()), actor, action)
}

/// Whether a server can take on the clients of a backup.
pub fn accept(values: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let Some(bytes) = values.get(ClientTable::NAME) else { return Ok(()) };
    let table = ClientTable::from_bytes(bytes).ok_or("The OpenID clients of the backup cannot be read")?;
    table.check_bounds().map_err(|_| "The backup has more OpenID clients than a server takes".to_owned())?;
    for client in table.rooms.values().flatten() {
        if let Some(problem) = client.terms().problems().first() {
            let (room, id) = (&client.room, &client.id);
            return Err(format!("The OpenID client {id:?} of the room {room} in the backup: {problem}"));
        }
    }
    Ok(())
}
