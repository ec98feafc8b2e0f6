//! `anteroom check-config`: what it says of a configuration and of the rooms in the store, and that it changes nothing.

use std::path::Path;

use anteroom_testkit::{Builder, Server};

use crate::support::BINARY;

const FILE: &str = "[[room]]\nid = \"Hall\"\nvalidity_period = 600\n[[room]]\nid = \"Yard\"\n";

fn check() -> Builder {
    Server::builder(BINARY).command("check-config")
}

/// The lines that a check with exit code 0 prints; it has nothing to say on standard error.
#[track_caller]
fn lines(builder: Builder) -> Vec<String> {
    let ended = builder.run_to_end().expect("the check ends by itself");
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    ended.stdout.lines().map(str::to_owned).collect()
}

/// The check of a file against the data of a server that has ended or still runs.
fn against(directory: &Path, file: &str) -> Builder {
    check().directory(directory).config(file)
}

/// Spans are an option of the build, and a setting is not ignored because the program cannot follow it.
#[cfg(not(feature = "otlp"))]
#[test]
fn a_collector_is_refused_by_a_program_that_was_built_without_the_export_of_spans() {
    let config = "otlp_endpoint = \"http://127.0.0.1:4318\"\n";
    for command in ["check-config", "serve"] {
        let ended = Server::builder(BINARY).command(command).memory().config(config).run_to_end();
        let ended = ended.expect("the command ends");
        assert!(
            !ended.status.success() && ended.stderr.contains("--features otlp"),
            "{command}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_valid_file_is_said_to_be_valid_and_no_store_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let said = lines(against(directory.path(), FILE));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].ends_with("under-test.toml is valid: 2 room(s)"), "{said:?}");
    assert!(said[1].starts_with("store file:") && said[1].ends_with(": not created yet"), "{said:?}");
    assert!(!directory.path().join("data").exists());
}

#[test]
fn the_sample_file_is_valid() {
    let sample = anteroom_testkit::workspace_root().join("anteroom.sample.toml");
    let said = lines(check().memory().argument("--config").argument(sample.display().to_string()));
    assert!(said[0].ends_with("anteroom.sample.toml is valid: 1 room(s)"), "{said:?}");
}

#[test]
fn without_a_file_the_defaults_are_named() {
    let said = lines(check());
    assert_eq!(said[0], "no configuration file; defaults: room Sample");
    assert!(said[1].ends_with(": not created yet"), "{said:?}");
}

#[test]
fn the_file_of_the_working_directory_is_found() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("anteroom.toml"), FILE).unwrap();
    let said = lines(check().memory().directory(directory.path()));
    assert!(said[0].ends_with("anteroom.toml is valid: 2 room(s)"), "{said:?}");
}

#[test]
fn a_memory_store_has_nothing_to_compare() {
    let said = lines(check().memory().config(FILE));
    assert_eq!(said[1..], ["store memory: keeps nothing, so there is nothing to compare"]);
}

/// A client knows its provider by its issuer alone.
#[test]
fn rooms_with_clients_and_one_issuer_are_named_here_and_at_the_start() {
    let client = "[[room.client]]\npublic = true\nredirect_addresses = [\"https://shop.example/callback\"]\n";
    let room = |id: &str, issuer: &str, more: &str| format!("[[room]]\nid = \"{id}\"\n{issuer}{more}");
    let shared = "issuer = \"https://sso.example\"\n";
    let other = "issuer = \"https://other.example\"\n";
    let file = |yard: &str, attic: &str| {
        room("Hall", shared, client) + &room("Yard", yard, client) + &room("Attic", shared, attic)
    };
    let warning = "have OpenID clients and one issuer, https://sso.example";
    let names = |file: String| {
        let said = lines(check().memory().config(file));
        let warned = said.iter().find(|line| line.contains(warning))?;
        warned.split(':').next().map(str::to_owned)
    };
    assert_eq!(names(file(other, "")), None, "a room without clients has no ID tokens");
    assert_eq!(names(file("", client)).as_deref(), Some("rooms Hall, Attic"));
    assert_eq!(names(file(shared, "")).as_deref(), Some("rooms Hall, Yard"));
    // The default room has the public URL as its issuer.
    let public = "public_url = \"https://sso.example\"\ndefault_room = \"Yard\"\n";
    assert_eq!(names(public.to_owned() + &file("", "")).as_deref(), Some("rooms Hall, Yard"));

    let warns = |file: String| {
        let server = Server::builder(BINARY).memory().config(file).start().unwrap();
        server.stderr().contains("rooms with OpenID clients share one issuer")
    };
    assert!(warns(file(shared, "")));
    assert!(!warns(file(other, "")));
}

#[test]
fn unknown_keys_have_exit_code_2_their_line_the_nearest_key_and_a_hint() {
    let wrong = [
        ("public_adr = \"127.0.0.1:0\"\n", "under-test.toml:1", "`public_addr`"),
        ("[[room]]\nid = \"Hall\"\nvalidity_periode = 60\n", "under-test.toml:3", "`validity_period`"),
    ];
    for (file, place, nearest) in wrong {
        let ended = check().memory().config(file).run_to_end().unwrap();
        let message = &ended.stderr;
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""), "{message}");
        assert!(message.contains(place) && message.contains(nearest), "{message}");
        assert!(message.contains("\nhint: "), "{message}");
    }
}

#[test]
fn a_file_that_is_not_there_has_exit_code_2() {
    let ended = check().argument("--config").argument("nowhere.toml").run_to_end().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("nowhere.toml") && ended.stderr.contains("\nhint: "), "{}", ended.stderr);
}

#[test]
fn settings_edited_in_the_file_are_listed_and_applied_by_the_next_start_only() {
    let mut server = Server::builder(BINARY).config(FILE).start().unwrap();
    server.line("Hall").join();
    server.terminate().unwrap();
    let unchanged = ["room Hall: as in the file", "room Yard: as in the file"];
    assert_eq!(lines(against(server.directory(), FILE))[1..], unchanged);

    let edited = FILE.replace("600", "1200\nstate = \"paused\"") + "[[room]]\nid = \"Attic\"\n";
    let said = lines(against(server.directory(), &edited));
    let expected = [
        "room Hall: changed since (the next start applies the file)",
        "  validity_period: 600 in the store, 1200 in the file",
        "  state: \"open\" in the store, \"paused\" in the file",
        "room Yard: as in the file",
        "room Attic: will be created",
    ];
    assert_eq!(said[1..], expected);
    // Looking has changed nothing.
    assert_eq!(lines(against(server.directory(), FILE))[1..], unchanged);
    assert_eq!(lines(against(server.directory(), &edited))[1..], expected);

    server.set_config(&*edited);
    server.restart().unwrap();
    assert_eq!(server.line("Hall").waiting(), 1);
    server.terminate().unwrap();
    let said = lines(against(server.directory(), &edited));
    assert_eq!(said[1..], ["Hall", "Yard", "Attic"].map(|room| format!("room {room}: as in the file")));
}

#[test]
fn a_store_in_use_is_said_and_left_alone() {
    let server = Server::builder(BINARY).config(FILE).start().unwrap();
    let mut line = server.line("Hall");
    let id = line.join();
    let said = lines(against(server.directory(), &FILE.replace("600", "1200")));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].starts_with("store file:") && said[1].contains(": not compared ("), "{said:?}");
    assert!(said[1].contains("in use"), "{said:?}");
    assert_eq!((line.position(&id), line.waiting()), (1, 1));
}
