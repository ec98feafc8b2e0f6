//! A file of JSON lines: one CloudEvent a line, durable before it counts as delivered.
//!
//! Full files are renamed: `NAME.jsonl` becomes `NAME.1.jsonl`, that one `NAME.2.jsonl`, and so on. A line that a crash cut short is ended
//! before the next one, so that readers lose that line only; its event is sent again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{SendFailure, Transport, TransportError};
use crate::destination::FileTarget;
use crate::message::EventMessage;

/// How many events one call takes: they share one wait for the disk.
pub(super) const FILE_BATCH_MAX: usize = 1000;
/// Who may read a file: its owner. Lines may hold request ids.
const FILE_MODE: u32 = 0o600;

/// The way to a file.
pub(super) struct FileTransport {
    /// One call writes at a time, also while the call before it was abandoned and still writes.
    lines: Arc<Mutex<LineFile>>,
    with_request_ids: bool,
}

/// Where lines go.
struct LineFile {
    directory: PathBuf,
    name: String,
    size_max_bytes: u64,
    files_max: u32,
}

/// Why lines were not written, and how many are safe.
struct WriteFailure {
    error: io::Error,
    durable: usize,
}

impl FileTransport {
    pub(super) fn new(
        name: &str,
        target: &FileTarget,
        directory: PathBuf,
        with_request_ids: bool,
    ) -> Result<Self, TransportError> {
        let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        // `a.1` would write into the file that `a` renames its own to.
        let looks_rotated = name
            .rsplit_once('.')
            .is_some_and(|(_, end)| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()));
        if name.is_empty() || !name.bytes().all(is_character) || looks_rotated {
            return Err(TransportError::FileName);
        }
        let lines = LineFile {
            directory,
            name: name.to_owned(),
            size_max_bytes: target.size_max_bytes,
            files_max: target.files_max,
        };
        Ok(Self { lines: Arc::new(Mutex::new(lines)), with_request_ids })
    }
}

#[async_trait]
impl Transport for FileTransport {
    fn batch_max(&self) -> usize {
        FILE_BATCH_MAX
    }

    async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure> {
        let lines: Vec<String> =
            messages.iter().map(|message| format!("{}\n", message.to_json(self.with_request_ids))).collect();
        let file = Arc::clone(&self.lines);
        let writing = tokio::task::spawn_blocking(move || {
            file.lock().unwrap_or_else(PoisonError::into_inner).append(&lines)
        });
        match writing.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(WriteFailure { error, durable })) => {
                Err(SendFailure { delivered: durable, ..SendFailure::new(reason(&error)) })
            }
            Err(_) => Err(SendFailure::new("the server is stopping")),
        }
    }
}

impl LineFile {
    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.jsonl", self.name))
    }

    fn rotated(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{}.{number}.jsonl", self.name))
    }

    /// Appends lines and returns once they are on the disk. The file is opened anew each time, so somebody may have moved it away.
    fn append(&self, lines: &[String]) -> Result<(), WriteFailure> {
        let mut durable = 0;
        while durable < lines.len() {
            let written = self.append_to_one(&lines[durable..]);
            durable += written.map_err(|error| WriteFailure { error, durable })?;
        }
        Ok(())
    }

    /// Appends as many lines as one file takes, at least one; a full file is rotated away before.
    fn append_to_one(&self, lines: &[String]) -> io::Result<usize> {
        let (mut file, mut size) = self.open()?;
        if size > 0 && size + lines[0].len() as u64 > self.size_max_bytes {
            drop(file);
            self.rotate()?;
            (file, size) = self.open()?;
        }
        let before = size;
        let mut text = String::new();
        let mut count = 0;
        for line in lines {
            if count > 0 && size + line.len() as u64 > self.size_max_bytes {
                break;
            }
            text.push_str(line);
            size += line.len() as u64;
            count += 1;
        }
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // A full disk should not be left with half a line. If this fails too, the next call ends that line.
            let _ = file.set_len(before);
            return Err(error);
        }
        Ok(count)
    }

    /// The file, ready to be appended to, and its size.
    fn open(&self) -> io::Result<(File, u64)> {
        let path = self.path();
        let is_new = !path.try_exists()?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(FILE_MODE).open(&path)?;
        let mut size = file.metadata()?.len();
        if size > 0 && !ends_with_a_line(&mut file)? {
            file.write_all(b"\n")?;
            size += 1;
        }
        if is_new {
            sync_directory(&self.directory)?;
        }
        Ok((file, size))
    }

    /// Makes way for a new file; the oldest goes.
    fn rotate(&self) -> io::Result<()> {
        if self.files_max == 0 {
            fs::remove_file(self.path())?;
            return sync_directory(&self.directory);
        }
        for number in (1..self.files_max).rev() {
            match fs::rename(self.rotated(number), self.rotated(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(self.path(), self.rotated(1))?;
        sync_directory(&self.directory)
    }
}

fn ends_with_a_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// A name is safe on the disk only when its directory was synced too.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "the directory of event files is missing",
        io::ErrorKind::PermissionDenied => "no permission to write the file",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "no space left on the disk",
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only",
        io::ErrorKind::IsADirectory => "there is a directory in the file's place",
        _ => "the file cannot be written",
    }
}
