//! Making the file: whole or not at all.
//!
//! A database interrupted while it was being made would be refused as no database at all, and a file whose directory entry was
//! never synced can vanish with everything in it. So the file is made under another name, gets its own when it is complete, and
//! the directory is synced before anybody relies on it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::FILE_NAME;

/// Makes the database in `directory` unless there is one. `unique` tells apart those who try at the same time.
pub(super) fn create_if_missing(directory: &Path, unique: &str) -> io::Result<()> {
    let file = directory.join(FILE_NAME);
    if file.try_exists()? {
        return Ok(());
    }
    let unfinished = directory.join(format!("{FILE_NAME}.new-{unique}"));
    let made = private_file(&unfinished)
        .and_then(|file| redb::Builder::new().create_file(file).map_err(io::Error::other));
    let named = made.and_then(|database| {
        drop(database);
        File::open(&unfinished)?.sync_all()?;
        give_name(&unfinished, &file)
    });
    fs::remove_file(&unfinished).or_else(missing_is_fine)?;
    named?;
    sync_directory(directory)?;
    match directory.canonicalize()?.parent() {
        Some(parent) => sync_directory(parent),
        None => Ok(()),
    }
}

/// Makes the directory, for its owner alone, unless there is one.
pub(super) fn private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// A file for its owner alone: request ids lie in it, and the holder of one can fetch the pass.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A link never replaces a file that another process has made, and perhaps opened, meanwhile.
fn give_name(unfinished: &Path, file: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Some file systems have no links; there the check before must do.
        Err(_) if !file.try_exists()? => fs::rename(unfinished, file),
        linked => linked,
    }
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    // On other systems directories cannot be opened as files, and their entries are written through.
    Ok(())
}
