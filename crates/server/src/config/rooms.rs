//! `[[room]]` tables: each must have an id of its own. The rest is parsed by [`crate::ops::configured_rooms`], which is called here, so
//! that errors in rooms and in server settings are reported together.

use std::collections::BTreeMap;

use anteroom_core::RoomId;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::SETTINGS;
use super::clients::{self, ConfiguredClient};
use super::kinds::{Kind, Raw, Room};
use super::problems::{Origin, Place, Problem};
use super::source::{Source, shown_toml};
use crate::ops::configured_rooms::{ConfiguredRoom, read_settings};

/// The key of the array of tables.
const ROOM: &str = "room";
/// The one key every room must have.
const ID: &str = "id";

/// One `[[room]]`, not yet interpreted.
#[derive(Debug, Clone)]
pub struct RoomTable {
    /// Its id; no other room of the file has it.
    pub id: RoomId,
    /// All its keys, `id` included, `client` not.
    pub table: toml::Table,
    /// Its `[[room.client]]` tables.
    pub clients: Vec<ConfiguredClient>,
    /// Where it begins.
    pub place: Place,
    lines: BTreeMap<String, usize>,
}

impl RoomTable {
    /// Where `key` stands; where the room begins, if it has no such key. For messages about its value.
    pub fn place_of(&self, key: &str) -> Place {
        let line = self.lines.get(key).copied().unwrap_or(self.place.line);
        Place { path: self.place.path.clone(), line }
    }
}

/// Takes the rooms out of the file.
pub(super) fn read(source: &mut Source<'_>) -> Vec<RoomTable> {
    let Some((key, value)) = source.take_key(ROOM) else {
        return Vec::new();
    };
    let place = source.place(&key.span());
    let DeValue::Array(entries) = value.into_inner() else {
        source.problems.push(Problem::RoomsAreNotTables { place });
        return Vec::new();
    };
    let mut rooms: Vec<RoomTable> = Vec::new();
    for entry in entries {
        let span = entry.span();
        let place = source.place(&span);
        let DeValue::Table(table) = entry.into_inner() else {
            source.problems.push(Problem::RoomsAreNotTables { place });
            continue;
        };
        let Some(room) = read_one(source, place, &Spanned::new(span, table)) else {
            continue;
        };
        match rooms.iter().find(|other| other.id == room.id) {
            Some(first) => source.problems.push(Problem::RoomTwice {
                place: room.place_of(ID),
                id: room.id,
                first_line: first.place_of(ID).line,
            }),
            None => rooms.push(room),
        }
    }
    rooms
}

fn read_one<'a>(source: &mut Source<'a>, place: Place, table: &Spanned<DeTable<'a>>) -> Option<RoomTable> {
    let line = |key: &Spanned<DeString<'_>>| source.place(&key.span()).line;
    let lines: BTreeMap<String, usize> =
        table.get_ref().iter().map(|(key, _)| (key.get_ref().to_string(), line(key))).collect();
    let place_of = |key: &str| Place { line: lines.get(key).copied().unwrap_or(place.line), ..place.clone() };

    let mut settings: toml::Table =
        match serde::Deserialize::deserialize(toml::Deserializer::from(table.clone())) {
            Ok(settings) => settings,
            // Such as a number beyond 64 bits.
            Err(error) => {
                let place = error.span().map_or(place, |span| source.place(&span));
                let reason = toml::de::Error::message(&error).to_owned();
                source.problems.push(Problem::Syntax { place, reason });
                return None;
            }
        };
    // TOML has no way back to the top of the file, so a server setting below a [[room]] silently becomes the room's.
    for key in lines.keys().filter(|key| SETTINGS.iter().any(|setting| setting.name == key.as_str())) {
        source.problems.push(Problem::InsideARoom { place: place_of(key), key: key.clone() });
        settings.remove(key);
    }
    settings.remove(clients::CLIENT);
    let room_id = match table.get_ref().get(ID) {
        Some(id) => Room::read(Raw::Toml(id.get_ref())).map_err(|_| {
            let origin = Origin::Key { place: place_of(ID), name: ID.to_owned() };
            let value = shown_toml(id.get_ref(), source.text(), &id.span());
            let explanation = format!("expected {}", Room::expected());
            Problem::Value { origin, value, explanation }
        }),
        None => Err(Problem::RoomWithoutId { place: place.clone() }),
    };
    let room_id = match room_id {
        Ok(room_id) => room_id,
        Err(problem) => {
            source.problems.push(problem);
            source.problems.extend(read_settings(&settings, place_of).err().into_iter().flatten());
            return None;
        }
    };
    let clients = clients::read(source, &room_id, table.get_ref());
    let room = RoomTable { id: room_id, table: settings, clients, place, lines };
    source.problems.extend(ConfiguredRoom::read(&room).err().into_iter().flatten());
    Some(room)
}
