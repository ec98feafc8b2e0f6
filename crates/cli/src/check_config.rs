//! `anteroom check-config`: is the configuration right, and what would the next start change?

use anteroom_server::config::{Loaded, StoreUrl, file_destinations, file_rooms, redis_danger};
use anteroom_server::configured_rooms::{ConfiguredRoom, Drift};
use anteroom_server::shared_issuers::SharedIssuer;
use anteroom_server::{offline, page_templates};

use crate::failure::{Exit, Failure};
use crate::serve::check_features;

/// Prints what was read, and how the stored rooms differ from it.
pub(crate) fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let rooms = ConfiguredRoom::all(&loaded.rooms, loaded.config.capacity)?;
    file_rooms(&loaded.rooms)?;
    file_destinations(&loaded.destinations)?;
    check_features(&loaded.config)?;
    let problems = page_templates::problems(&loaded.config, &rooms);
    if !problems.is_empty() {
        let told: Vec<String> = problems.iter().map(|(whose, what)| format!("{whose}: {what}")).collect();
        let hint = "a template is a file NAME.html in the directory `page_templates`";
        return Err(Failure::new(Exit::CommandLine, told.join("; ")).hint(hint).into());
    }
    match &loaded.file {
        Some(file) => {
            let destinations = match loaded.destinations.len() {
                0 => String::new(),
                count => format!(", {count} destination(s) of events"),
            };
            println!("{} is valid: {} room(s){destinations}", file.display(), rooms.len());
        }
        None => println!("no configuration file; defaults: room {}", rooms[0].id),
    }
    for shared in SharedIssuer::of_file(&loaded.config, &loaded.rooms, &rooms) {
        println!("{shared}");
    }
    let url = &loaded.config.store_url;
    match url {
        StoreUrl::Memory => {
            println!("store {url} keeps nothing, so there is nothing to compare");
            return Ok(());
        }
        StoreUrl::File(directory) if !directory.join(anteroom_server::STORE_FILE_NAME).exists() => {
            println!("store {url}: not created yet");
            return Ok(());
        }
        StoreUrl::File(_) => {}
        StoreUrl::Redis(redis) => {
            if let Some(danger) = redis_danger(redis) {
                println!("store {url}: {danger}");
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = match runtime.block_on(offline::look(loaded)) {
        Ok(store) => store,
        Err(error) => {
            println!("store {url}: not compared ({error:#})");
            return Ok(());
        }
    };
    for room in &rooms {
        match runtime.block_on(room.drift(&*store))? {
            Drift::NotCreated => println!("room {}: will be created", room.id),
            Drift::Deleted => println!("room {}: deleted by an operator (until the file is edited)", room.id),
            Drift::Known { differences, .. } if differences.is_empty() => {
                println!("room {}: as in the file", room.id);
            }
            Drift::Known { differences, will_be_applied } => {
                let then = if will_be_applied {
                    "the next start applies the file"
                } else {
                    "kept, until the file is edited"
                };
                println!("room {}: changed since ({then})", room.id);
                for difference in differences {
                    println!("  {difference}");
                }
            }
        }
    }
    Ok(())
}
