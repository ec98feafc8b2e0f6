//! Master secrets and the keys derived from them.
//!
//! A server has a list of master secrets: the first one seals, all of them open. Putting a new secret in front of the old
//! one therefore rotates it without losing a single ticket; dropping the old one later ends what it sealed.
//!
//! No master secret is ever used as a key. Each use, and within it each room, has its own key by HKDF-SHA256, so that a
//! value sealed for one purpose means nothing for another. The enum `Label` is the complete list of uses.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anteroom_core::ids::RoomId;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::random;

/// The shortest master secret that is accepted, in characters.
pub const SECRET_MIN_CHARACTERS: usize = 32;

/// The longest list of master secrets: each of them is tried on every forged ticket.
pub const SECRETS_MAX: usize = 8;

/// The largest secret file that is read, in bytes.
pub const SECRET_FILE_MAX_BYTES: u64 = 64 * 1024;

/// How many random bytes a generated secret is made of.
const GENERATED_SECRET_BYTES: usize = 32;

/// Who may read and write a generated secret file: its owner.
const SECRET_FILE_MODE: u32 = 0o600;

/// How many random bytes tell the names of half-made secret files apart.
const DRAFT_NAME_BYTES: usize = 9;

/// Separates these keys from those of any other program that was given the same secret.
const SALT: &[u8] = b"anteroom master secret v1";

/// The size of a derived key, in bytes.
const KEY_BYTES: usize = 32;

/// A key derived for one `Label`; wiped when dropped.
pub(crate) type DerivedKey = Zeroizing<[u8; KEY_BYTES]>;

/// What a derived key is for. The variants are all the uses there are of a master secret.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label<'room> {
    /// AES-256 key that enciphers tickets of this room into request ids.
    RequestId(&'room RoomId),
    /// HMAC-SHA256 key that signs the ticket tokens of this room.
    TicketToken(&'room RoomId),
    /// Key material from which each cookie of this room's visitors gets its AES-256-GCM key.
    VisitorCookie(&'room RoomId),
    /// HMAC-SHA256 key by which the address prefixes of this room's visitors are told apart.
    AddressPrefix(&'room RoomId),
    /// Codes that hand an admitted visitor over to a site on another host.
    HandOffCode,
    /// Codes that take a place in line to another device.
    MoveCode,
    /// Codes that clients of the OpenID provider exchange for tokens.
    OpenIdCode,
    /// Refresh tokens of these clients.
    OpenIdRefreshToken,
    /// AES-256 key that enciphers tickets of this room into the subjects that this client knows them by.
    OpenIdSubject(&'room RoomId, &'room str),
    /// AES-256-GCM key that seals the private signing keys kept in the store.
    SigningKeysAtRest,
    /// AES-256-GCM key that seals the secret access keys of AWS clients kept in the store.
    SecretAccessKeysAtRest,
    /// AES-256-GCM key that seals the keys that webhooks are signed with.
    WebhookKeysAtRest,
    /// AES-256-GCM key that seals what we show to other destinations of events to be let in.
    DestinationSecretsAtRest,
    /// Key material from which each message in a store that several nodes share gets its AES-256-GCM key.
    SharedStore,
    /// Not a key but a fingerprint: the store keeps it, so that a node with other secrets notices.
    CheckValue,
}

impl<'room> Label<'room> {
    /// The label's name and room as HKDF's info, and the client where there is one. The zero byte between them occurs in none.
    fn info(self) -> [&'room [u8]; 5] {
        let (name, room): (&[u8], &[u8]) = match self {
            Self::RequestId(room) => (b"request id", room.as_str().as_bytes()),
            Self::TicketToken(room) => (b"ticket token", room.as_str().as_bytes()),
            Self::VisitorCookie(room) => (b"visitor cookie", room.as_str().as_bytes()),
            Self::AddressPrefix(room) => (b"address prefix", room.as_str().as_bytes()),
            Self::HandOffCode => (b"hand-off code", b""),
            Self::MoveCode => (b"move code", b""),
            Self::OpenIdCode => (b"openid code", b""),
            Self::OpenIdRefreshToken => (b"openid refresh token", b""),
            Self::OpenIdSubject(room, client) => {
                return [b"openid subject", b"\0", room.as_str().as_bytes(), b"\0", client.as_bytes()];
            }
            Self::SigningKeysAtRest => (b"signing keys at rest", b""),
            Self::SecretAccessKeysAtRest => (b"secret access keys at rest", b""),
            Self::WebhookKeysAtRest => (b"webhook keys at rest", b""),
            Self::DestinationSecretsAtRest => (b"destination secrets at rest", b""),
            Self::SharedStore => (b"shared store", b""),
            Self::CheckValue => (b"check value", b""),
        };
        [name, b"\0", room, b"", b""]
    }
}

/// Why master secrets could not be had. No variant carries a secret or a part of one.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Nothing there.
    #[error("no master secret given; give at least {SECRET_MIN_CHARACTERS} random characters")]
    Missing,
    /// One of them could be guessed.
    #[error(
        "master secret number {number} has {characters} characters, but needs at least {SECRET_MIN_CHARACTERS} \
         (commas and white space separate one secret from the next)"
    )]
    TooShort {
        /// Counted from 1, in the order given.
        number: usize,
        /// Its length.
        characters: usize,
    },
    /// More than anybody rotates through.
    #[error("{count} master secrets given, but at most {SECRETS_MAX} can be in use")]
    TooMany {
        /// How many there were.
        count: usize,
    },
    /// Not a text file of reasonable size.
    #[error("the secret file {path} is not a text of at most {SECRET_FILE_MAX_BYTES} bytes", path = .0.display())]
    NotAText(PathBuf),
    /// The content of a file was refused.
    #[error("the secret file {path} cannot be used: {reason}", path = .path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        reason: Box<SecretError>,
    },
    /// The file system said no.
    #[error("the secret file {path} cannot be {attempted}: {error}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: "read" or "created".
        attempted: &'static str,
        /// The reason given.
        error: io::Error,
    },
}

/// The master secrets in use, newest first. Wiped from memory when dropped.
pub struct MasterSecrets {
    /// Never empty; the first one seals.
    secrets: Vec<SecretString>,
}

/// What [`MasterSecrets::load_or_generate`] found.
#[derive(Debug)]
pub struct LoadedSecrets {
    /// The secrets.
    pub secrets: MasterSecrets,
    /// There was no file, and now there is one. Worth a warning: without the file every ticket is lost.
    pub generated: bool,
    /// Others than its owner may access the file. Worth a warning.
    pub readable_by_others: bool,
}

impl MasterSecrets {
    /// Reads a list separated by commas or white space, such as the value of an environment variable.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        Self::from_words(words(text))
    }

    /// Reads a file that holds such a list; lines that begin with `#` are comments.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let file = File::open(path).map_err(|error| SecretError::reading(path, error))?;
        Self::from_open_file(path, file)
    }

    /// Reads `path`, or creates it with a new random secret that only its owner can read. Of several processes that find
    /// no file at the same moment, one creates it and the others read that one's secret.
    pub fn load_or_generate(path: &Path) -> Result<LoadedSecrets, SecretError> {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return Self::load(path, opened),
        }
        let secret = Zeroizing::new(random::text(GENERATED_SECRET_BYTES));
        match create_durably(path, &secret) {
            Ok(()) => Ok(LoadedSecrets {
                secrets: Self::parse(&secret)?,
                generated: true,
                readable_by_others: false,
            }),
            // Another process was faster. Its file is whole, because it appeared whole.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(path, File::open(path)),
            Err(error) => Err(SecretError::creating(path, error)),
        }
    }

    fn load(path: &Path, opened: io::Result<File>) -> Result<LoadedSecrets, SecretError> {
        let file = opened.map_err(|error| SecretError::reading(path, error))?;
        let metadata = file.metadata().map_err(|error| SecretError::reading(path, error))?;
        let readable_by_others = metadata.permissions().mode() & 0o777 & !SECRET_FILE_MODE != 0;
        let secrets = Self::from_open_file(path, file)?;
        Ok(LoadedSecrets { secrets, generated: false, readable_by_others })
    }

    /// What the store keeps of the sealing secret: equal secrets give equal values, and nothing can be derived from it.
    pub fn check_value(&self) -> [u8; 16] {
        check_value_of(&self.secrets[0])
    }

    /// Which of the secrets, counted from 0, has this check value. None of them: this node must not start, because it
    /// could not open what the others sealed. Not the first one: a rotation is under way.
    pub fn index_of_check_value(&self, check_value: &[u8]) -> Option<usize> {
        self.secrets
            .iter()
            .position(|secret| verify_slices_are_equal(&check_value_of(secret), check_value).is_ok())
    }

    /// The one that seals, alone: what it opens needs no sealing anew.
    #[must_use]
    pub fn sealing_only(&self) -> Self {
        Self { secrets: vec![self.secrets[0].clone()] }
    }

    /// The key that seals for `label`.
    pub(crate) fn sealing_key(&self, label: Label<'_>) -> DerivedKey {
        derive(&self.secrets[0], label)
    }

    /// The keys that open for `label`, the sealing one first.
    pub(crate) fn opening_keys(&self, label: Label<'_>) -> impl Iterator<Item = DerivedKey> {
        self.secrets.iter().map(move |secret| derive(secret, label))
    }

    fn from_open_file(path: &Path, file: File) -> Result<Self, SecretError> {
        let mut text = Zeroizing::new(String::new());
        // Reserved at once, because a buffer that grows leaves copies of its content behind.
        text.reserve_exact(4096);
        match file.take(SECRET_FILE_MAX_BYTES + 1).read_to_string(&mut text) {
            Ok(length) if length as u64 <= SECRET_FILE_MAX_BYTES => {}
            Ok(_) => return Err(SecretError::NotAText(path.into())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(SecretError::NotAText(path.into()));
            }
            Err(error) => return Err(SecretError::reading(path, error)),
        }
        let without_comments = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        Self::from_words(without_comments.flat_map(words))
            .map_err(|reason| SecretError::InFile { path: path.into(), reason: Box::new(reason) })
    }

    fn from_words<'text>(words: impl Iterator<Item = &'text str>) -> Result<Self, SecretError> {
        let mut secrets = Vec::new();
        for (index, word) in words.enumerate() {
            let characters = word.chars().count();
            if characters < SECRET_MIN_CHARACTERS {
                return Err(SecretError::TooShort { number: index + 1, characters });
            }
            secrets.push(SecretString::from(word));
        }
        match secrets.len() {
            0 => Err(SecretError::Missing),
            1..=SECRETS_MAX => Ok(Self { secrets }),
            count => Err(SecretError::TooMany { count }),
        }
    }
}

impl fmt::Debug for MasterSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MasterSecrets({} of them, hidden)", self.secrets.len())
    }
}

impl SecretError {
    fn reading(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.into(), attempted: "read", error }
    }

    fn creating(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.into(), attempted: "created", error }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character == ',' || character.is_whitespace())
        .filter(|word| !word.is_empty())
}

/// Creates a file that did not exist, whole or not at all, and returns once it would survive a power cut.
///
/// It is written under another name and appears under its own only when its content is on the disk: an empty file left by
/// a power cut would keep every later start from working. Fails with `AlreadyExists`, and changes nothing, if a file is
/// there.
fn create_durably(path: &Path, content: &str) -> io::Result<()> {
    // Random, so that neither another process nor the leftover of a power cut has the same name.
    let mut draft_name = path.as_os_str().to_owned();
    draft_name.push(format!(".{}.draft", random::text(DRAFT_NAME_BYTES)));
    let draft = PathBuf::from(draft_name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(SECRET_FILE_MODE).open(&draft)?;
    let placed = file
        .write_all(content.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .and_then(|()| put_in_place(&draft, path, std::fs::hard_link(&draft, path)));
    // A rename has removed it already. If it stays, it is a copy that only its owner can read and nobody looks for; the
    // error that led here is the one to report.
    let _ = std::fs::remove_file(&draft);
    // Also where another process was first: a secret is used only once its file is durable.
    let synced = sync_directory_of(path);
    placed.and(synced)
}

/// Gives the draft its name, given how linking it went. A link never replaces a file, so it decides who was first.
fn put_in_place(draft: &Path, path: &Path, linked: io::Result<()>) -> io::Result<()> {
    match linked {
        // Some file systems (FAT, some network shares) have no links, and say so in different ways.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => rename_into_place(draft, path),
        linked => linked,
    }
}

/// A rename would replace a file, so processes look and rename one after the other.
fn rename_into_place(draft: &Path, path: &Path) -> io::Result<()> {
    let directory = File::open(directory_of(path))?;
    // Where there are no locks either, two first starts within microseconds remain a risk; refusing to start would be
    // worse. The lock ends with the handle.
    let _ = directory.lock();
    match std::fs::symlink_metadata(path) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::rename(draft, path),
        Err(error) => Err(error),
    }
}

/// A new file exists for certain only when its directory was synced too.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn derive(secret: &SecretString, label: Label<'_>) -> DerivedKey {
    let mut key = DerivedKey::default();
    hkdf::Salt::new(hkdf::HKDF_SHA256, SALT)
        .extract(secret.expose_secret().as_bytes())
        .expand(&label.info(), hkdf::HKDF_SHA256)
        .and_then(|output| output.fill(&mut *key))
        .expect("HKDF-SHA256 can always give 32 bytes");
    key
}

fn check_value_of(secret: &SecretString) -> [u8; 16] {
    let derived = derive(secret, Label::CheckValue);
    let mut value = [0; 16];
    value.copy_from_slice(&derived[..16]);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    #[test]
    fn a_list_is_separated_by_commas_or_white_space() {
        for text in [format!("{NEW},{OLD}"), format!(" {NEW} ,\n\t{OLD}\n"), format!("{NEW}\n{OLD}")] {
            let secrets = MasterSecrets::parse(&text).unwrap();
            assert_eq!(secrets.secrets.len(), 2);
            assert_eq!(secrets.check_value(), MasterSecrets::parse(NEW).unwrap().check_value());
        }
    }

    #[test]
    fn short_missing_and_too_many_secrets_are_refused_without_being_quoted() {
        let short = "only-31-characters-long-abcdefg";
        assert_eq!(short.len(), SECRET_MIN_CHARACTERS - 1);
        let error = MasterSecrets::parse(&format!("{NEW} {short}")).unwrap_err();
        assert!(matches!(error, SecretError::TooShort { number: 2, characters: 31 }), "{error}");
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(!shown.contains(short) && !shown.contains(NEW), "{shown}");
        }
        assert!(MasterSecrets::parse(&format!("{short}h")).is_ok());
        assert!(matches!(MasterSecrets::parse(" ,\n"), Err(SecretError::Missing)));
        let many = [NEW; SECRETS_MAX + 1].join(",");
        assert!(matches!(MasterSecrets::parse(&many), Err(SecretError::TooMany { count: 9 })));
    }

    #[test]
    fn every_use_and_room_has_its_own_key() {
        let secrets = MasterSecrets::parse(NEW).unwrap();
        let (sample, other) = (RoomId::parse("Sample").unwrap(), RoomId::parse("Other").unwrap());
        let labels = [
            Label::RequestId(&sample),
            Label::RequestId(&other),
            Label::TicketToken(&sample),
            Label::TicketToken(&other),
            Label::VisitorCookie(&sample),
            Label::VisitorCookie(&other),
            Label::HandOffCode,
            Label::MoveCode,
            Label::OpenIdCode,
            Label::OpenIdRefreshToken,
            Label::OpenIdSubject(&sample, "shop"),
            Label::OpenIdSubject(&sample, "blog"),
            Label::OpenIdSubject(&other, "shop"),
            Label::SigningKeysAtRest,
            Label::SecretAccessKeysAtRest,
            Label::WebhookKeysAtRest,
            Label::DestinationSecretsAtRest,
            Label::SharedStore,
            Label::CheckValue,
        ];
        let keys: std::collections::HashSet<[u8; KEY_BYTES]> =
            labels.iter().map(|label| *secrets.sealing_key(*label)).collect();
        assert_eq!(keys.len(), labels.len());
    }

    #[test]
    fn a_check_value_is_found_wherever_its_secret_stands_in_the_list() {
        let stored = MasterSecrets::parse(OLD).unwrap().check_value();
        assert_eq!(MasterSecrets::parse(OLD).unwrap().index_of_check_value(&stored), Some(0));
        assert_eq!(
            MasterSecrets::parse(&format!("{NEW},{OLD}")).unwrap().index_of_check_value(&stored),
            Some(1)
        );
        assert_eq!(MasterSecrets::parse(NEW).unwrap().index_of_check_value(&stored), None);
        assert_eq!(MasterSecrets::parse(OLD).unwrap().index_of_check_value(&stored[..15]), None);
        assert_eq!(MasterSecrets::parse(OLD).unwrap().index_of_check_value(&[]), None);
    }

    #[test]
    fn a_generated_file_is_private_and_read_back_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let first = MasterSecrets::load_or_generate(&path).unwrap();
        assert!(first.generated && !first.readable_by_others);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, SECRET_FILE_MODE);
        let second = MasterSecrets::load_or_generate(&path).unwrap();
        assert!(!second.generated && !second.readable_by_others);
        assert_eq!(first.secrets.check_value(), second.secrets.check_value());

        let elsewhere = MasterSecrets::load_or_generate(&directory.path().join("elsewhere")).unwrap();
        assert_ne!(first.secrets.check_value(), elsewhere.secrets.check_value());
    }

    #[test]
    fn a_file_others_can_read_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, NEW).unwrap();
        for (mode, expected) in [(0o640, true), (0o604, true), (0o600, false), (0o400, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                MasterSecrets::load_or_generate(&path).unwrap().readable_by_others,
                expected,
                "{mode:o}"
            );
        }
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(MasterSecrets::load_or_generate(&path), Err(SecretError::InFile { .. })));
        assert!(create_durably(&path, NEW).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
    }

    fn names_in(directory: &Path) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn first_starts_at_the_same_moment_end_up_with_one_secret() {
        const ROUNDS: usize = 25;
        const STARTS: usize = 4;
        for _ in 0..ROUNDS {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("secret");
            let barrier = std::sync::Barrier::new(STARTS);
            let start = || {
                barrier.wait();
                MasterSecrets::load_or_generate(&path).unwrap()
            };
            let loaded: Vec<LoadedSecrets> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
                starts.into_iter().map(|start| start.join().unwrap()).collect()
            });
            let written = MasterSecrets::from_file(&path).unwrap().check_value();
            assert!(loaded.iter().all(|one| one.secrets.check_value() == written));
            assert_eq!(loaded.iter().filter(|one| one.generated).count(), 1);
            assert_eq!(names_in(directory.path()), ["secret"], "no draft is left");
        }
    }

    #[test]
    fn what_a_power_cut_leaves_behind_does_not_stop_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(directory.path().join("secret.abc.draft"), "").unwrap();
        assert!(MasterSecrets::load_or_generate(&path).unwrap().generated);
        assert!(!MasterSecrets::load_or_generate(&path).unwrap().generated);
    }

    #[test]
    fn without_links_a_rename_puts_the_file_in_place_and_replaces_none() {
        let directory = tempfile::tempdir().unwrap();
        let (path, draft) = (directory.path().join("secret"), directory.path().join("draft"));
        let no_links = || Err(io::ErrorKind::PermissionDenied.into());
        std::fs::write(&draft, NEW).unwrap();
        put_in_place(&draft, &path, no_links()).unwrap();
        assert_eq!(names_in(directory.path()), ["secret"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), NEW);

        std::fs::write(&draft, OLD).unwrap();
        let second = put_in_place(&draft, &path, no_links()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), NEW);
    }

    #[test]
    fn a_file_that_cannot_be_created_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, OLD).unwrap();
        assert_eq!(create_durably(&path, NEW).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names_in(directory.path()), ["secret"]);
        let absent = MasterSecrets::load_or_generate(&directory.path().join("absent").join("secret"));
        assert!(matches!(absent, Err(SecretError::Io { attempted: "created", .. })));
    }

    #[test]
    fn comment_lines_count_in_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, format!("# rotated in spring\n{NEW}\n  # the one before\n{OLD}\n")).unwrap();
        assert_eq!(MasterSecrets::from_file(&path).unwrap().secrets.len(), 2);
        let beginning_with_a_hash = format!("#{NEW}");
        assert_eq!(MasterSecrets::parse(&beginning_with_a_hash).unwrap().secrets.len(), 1);
    }

    #[test]
    fn files_that_are_no_text_or_too_large_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, [0xff; 64]).unwrap();
        assert!(matches!(MasterSecrets::from_file(&path), Err(SecretError::NotAText(_))));
        std::fs::write(&path, vec![b'a'; 1 + usize::try_from(SECRET_FILE_MAX_BYTES).unwrap()]).unwrap();
        assert!(matches!(MasterSecrets::from_file(&path), Err(SecretError::NotAText(_))));
        let absent = MasterSecrets::from_file(&directory.path().join("absent"));
        assert!(matches!(absent, Err(SecretError::Io { attempted: "read", .. })));
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let secrets = MasterSecrets::parse(&format!("{NEW},{OLD}")).unwrap();
        let loaded = LoadedSecrets { secrets, generated: false, readable_by_others: false };
        let shown = format!("{loaded:?}");
        assert!(shown.contains("2 of them, hidden") && !shown.contains("for-tests"), "{shown}");
    }
}
