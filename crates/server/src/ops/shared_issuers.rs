//! Rooms that sign ID tokens under one issuer. A client knows its provider by that name alone: it cannot tell whose token it has, and takes
//! that of another room where a client of the same id stands there, too.

use std::collections::BTreeMap;
use std::fmt;

use anteroom_admission::Admission;
use anteroom_admission::openid::issuer_of;
use anteroom_core::RoomId;

use crate::config::{Config, RoomTable};
use crate::configured_rooms::ConfiguredRoom;

/// Two rooms or more with OpenID clients and one issuer.
#[derive(Debug, PartialEq, Eq)]
pub struct SharedIssuer {
    issuer: String,
    rooms: Vec<RoomId>,
}

impl SharedIssuer {
    fn all(rooms: impl IntoIterator<Item = (RoomId, String)>) -> Vec<Self> {
        let mut by_issuer: BTreeMap<String, Vec<RoomId>> = BTreeMap::new();
        for (room, issuer) in rooms {
            by_issuer.entry(issuer).or_default().push(room);
        }
        let shared = by_issuer.into_iter().filter(|(_, rooms)| rooms.len() > 1);
        shared.map(|(issuer, rooms)| Self { issuer, rooms }).collect()
    }

    /// Those of the rooms and clients of a file.
    pub fn of_file(config: &Config, tables: &[RoomTable], rooms: &[ConfiguredRoom]) -> Vec<Self> {
        // Without a public URL it is the address of the listener, which is the same for all.
        let public_url = config.public_url.as_deref().unwrap_or("the public URL");
        let has_clients =
            |room: &RoomId| tables.iter().any(|table| table.id == *room && !table.clients.is_empty());
        let is_default = |room: &RoomId| match &config.default_room {
            Some(default) => default == room,
            None => rooms.len() == 1,
        };
        Self::all(rooms.iter().filter(|room| has_clients(&room.id)).map(|room| {
            let setting = room.settings.issuer.as_deref();
            (room.id.clone(), issuer_of(&room.id, setting, is_default(&room.id), public_url))
        }))
    }

    fn names(&self) -> String {
        self.rooms.iter().map(RoomId::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for SharedIssuer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rooms, issuer) = (self.names(), &self.issuer);
        write!(
            formatter,
            "rooms {rooms}: have OpenID clients and one issuer, {issuer}: clients of the same id take each other's ID tokens; \
             give each room its own `issuer`, or none"
        )
    }
}

/// Warns of those among the rooms and clients that there are.
pub(crate) fn warn(admission: &Admission) {
    let rooms = admission.engine.rooms();
    let views = rooms.iter().filter_map(|room| admission.room(room.id().as_str()));
    let with_clients = views.filter(|room| !admission.openid_clients.of_room(room.handle.id()).is_empty());
    let issuers = with_clients.map(|room| (room.handle.id().clone(), admission.openid_issuer(&room)));
    for shared in SharedIssuer::all(issuers) {
        tracing::warn!(
            rooms = shared.names(),
            issuer = shared.issuer,
            "rooms with OpenID clients share one issuer, clients of the same id take each other's ID tokens; \
             give each room its own `issuer`, or none"
        );
    }
}
