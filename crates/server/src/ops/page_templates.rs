//! Pages of the operator's own: the files of `page_templates`, read at the start and again when they change.
//!
//! A room is only set to a template that is there and with which every page can be written. A node on which the file is missing or
//! broken later shows the built-in page, and says so in its log and figures.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use anteroom_core::Settings;
use anteroom_core::settings::TemplateName;
use anteroom_pages::{Pages, TEMPLATE_MAX_BYTES, TemplateProblem};

use crate::config::Config;
use crate::ops::configured_rooms::ConfiguredRoom;
use crate::ops::shutdown::Shutdown;

/// How a template's file is called after its name.
const ENDING: &str = "html";
/// How many templates there may be.
const TEMPLATES_MAX: usize = 256;
/// How often their files are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// The directory of templates, and what was last read of it.
#[derive(Debug)]
pub(crate) struct TemplateFolder {
    directory: PathBuf,
    pages: Arc<Pages>,
    last_read: Mutex<Vec<FileStamp>>,
}

/// A file as it was when it was looked at.
type FileStamp = (PathBuf, Option<SystemTime>, u64);

/// The pages of a configuration, and the folder to go on watching.
pub(crate) fn open(config: &Config) -> io::Result<(Arc<Pages>, Option<TemplateFolder>)> {
    let Some(directory) = &config.page_templates else { return Ok((Arc::default(), None)) };
    let seen = look(directory)?;
    let pages = Arc::new(Pages::with_templates(read(&seen)?));
    let folder = TemplateFolder {
        directory: directory.clone(),
        pages: Arc::clone(&pages),
        last_read: Mutex::new(seen),
    };
    Ok((pages, Some(folder)))
}

/// What is wrong with the templates that the rooms of a configuration name: room and reason.
pub fn problems(config: &Config, rooms: &[ConfiguredRoom]) -> Vec<(String, String)> {
    let pages = match open(config) {
        Ok((pages, _)) => pages,
        Err(error) => {
            let directory = config.page_templates.as_deref().unwrap_or(Path::new("")).display();
            return vec![("page_templates".into(), format!("{directory} cannot be read: {error}"))];
        }
    };
    let found = rooms.iter().filter_map(|room| {
        let problem = check(&pages, &room.settings).err()?;
        Some((format!("room {}", room.id), problem))
    });
    found.collect()
}

/// Whether a room's template is there, and can write every page; if not, a sentence about why.
pub(crate) fn check(pages: &Pages, settings: &Settings) -> Result<(), String> {
    let Some(name) = settings.page_template.as_ref().map(TemplateName::as_str) else { return Ok(()) };
    pages.check_named_template(name).map_err(|TemplateProblem { line, reason }| match line {
        Some(line) => format!("`page_template` \"{name}\" cannot be used: line {line}: {reason}"),
        None => format!("`page_template` \"{name}\" cannot be used: {reason}"),
    })
}

impl TemplateFolder {
    /// Reads the files again whenever one of them has changed, until a shutdown is asked for.
    pub(crate) async fn watch(self, shutdown: Shutdown) {
        let folder = Arc::new(self);
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = tokio::time::sleep(LOOK_PERIOD) => {}
            }
            let folder = Arc::clone(&folder);
            // A panic in there would be ours to fix, but is no reason to stop looking.
            let _ = tokio::task::spawn_blocking(move || folder.read_if_changed()).await;
        }
    }

    fn read_if_changed(&self) {
        let mut last_read = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let templates = match look(&self.directory) {
            Ok(seen) if seen == *last_read => return,
            Ok(seen) => read(&seen).map(|templates| (seen, templates)),
            Err(error) => Err(error),
        };
        match templates {
            Ok((seen, templates)) => {
                tracing::info!(count = templates.len(), "page templates reloaded");
                self.pages.replace_templates(templates);
                *last_read = seen;
            }
            Err(error) => {
                // The templates read before stay. Cleared, so that reading is retried; logged again only if it succeeded
                // in between.
                if !last_read.is_empty() {
                    tracing::warn!(%error, directory = %self.directory.display(), "page templates cannot be read, keeping the last ones");
                }
                last_read.clear();
            }
        }
    }
}

/// All templates of a directory, in the order of their names.
fn look(directory: &Path) -> io::Result<Vec<FileStamp>> {
    let mut seen = vec![];
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_named = path
            .file_stem()
            .and_then(|name| name.to_str())
            .is_some_and(|name| TemplateName::parse(name).is_some());
        if is_named && path.extension().is_some_and(|ending| ending == ENDING) {
            let metadata = fs::metadata(&path)?;
            seen.push((path, metadata.modified().ok(), metadata.len()));
        }
        if seen.len() > TEMPLATES_MAX {
            return Err(io::Error::other(format!("more than {TEMPLATES_MAX} templates")));
        }
    }
    seen.sort();
    Ok(seen)
}

fn read(seen: &[FileStamp]) -> io::Result<Vec<(String, String)>> {
    let mut templates = vec![];
    for (path, _, length) in seen {
        if *length > TEMPLATE_MAX_BYTES as u64 {
            let text = format!("{} is larger than {TEMPLATE_MAX_BYTES} bytes", path.display());
            return Err(io::Error::other(text));
        }
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let text = fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        templates.push((name, text));
    }
    Ok(templates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_when_they_change_and_others_are_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("sale.html"), "<p>one</p>").unwrap();
        fs::write(path("notes.txt"), "x").unwrap();
        fs::write(path("a b.html"), "x").unwrap();
        let seen = look(directory.path()).unwrap();
        let pages = Arc::new(Pages::with_templates(read(&seen).unwrap()));
        assert_eq!(pages.template_text("sale").as_deref(), Some("<p>one</p>"));
        assert!(pages.template_text("notes").is_none() && pages.template_text("a b").is_none());
        let folder = TemplateFolder {
            directory: directory.path().to_owned(),
            pages: Arc::clone(&pages),
            last_read: Mutex::new(seen),
        };
        fs::write(path("sale.html"), "<p>two!</p>").unwrap();
        fs::write(path("other.html"), "<p>three</p>").unwrap();
        folder.read_if_changed();
        assert_eq!(pages.template_text("sale").as_deref(), Some("<p>two!</p>"));
        assert!(pages.template_text("other").is_some());
        // A file that cannot be read takes nothing away.
        fs::write(path("large.html"), vec![b'x'; TEMPLATE_MAX_BYTES + 1]).unwrap();
        folder.read_if_changed();
        assert!(pages.template_text("sale").is_some());
        fs::remove_file(path("large.html")).unwrap();
        fs::remove_file(path("sale.html")).unwrap();
        folder.read_if_changed();
        assert!(pages.template_text("sale").is_none() && pages.template_text("other").is_some());
    }
}
