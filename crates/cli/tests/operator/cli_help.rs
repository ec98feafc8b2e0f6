//! The command line's own words, taken at their word: every command has help with examples, every example works as it stands,
//! and `docs/cli.md` says the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anteroom_testkit::{Request, Server, require, workspace_root};
use serde_json::json;

use crate::support::operator::{Operator, finish};
use crate::support::{BINARY, binary};

/// The heading of the options that every command over the private API has.
const SHARED_OPTIONS: &str = "Server options:";
/// The last line of `docs/cli.md` that is written by hand.
const GENERATED_FROM_HERE: &str =
    "<!-- From here on generated; see crates/cli/tests/operator/cli_help.rs. -->";

/// One command's help.
struct Page {
    /// Such as `room set`.
    command: String,
    help: String,
}

impl Page {
    /// The lines below `heading`, up to the next empty one.
    fn block(&self, heading: &str) -> Vec<&str> {
        let lines = self.help.lines().skip_while(|line| *line != heading);
        lines.skip(1).take_while(|line| !line.is_empty()).collect()
    }

    fn examples(&self) -> Vec<&str> {
        self.block("Examples:").iter().filter_map(|line| line.strip_prefix("  ")).collect()
    }

    /// The commands below this one.
    fn subcommands(&self) -> Vec<String> {
        let entries = self.block("Commands:");
        let names = entries.iter().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
        // A line that begins with more spaces goes on with the description above it.
        let names = names.zip(&entries).filter(|(_, line)| !line.starts_with("   ")).map(|(name, _)| name);
        names
            .filter(|name| *name != "help")
            .map(|name| format!("{} {name}", self.command).trim().to_owned())
            .collect()
    }
}

fn page(command: &str) -> Page {
    let mut help = Command::new(binary());
    help.args(command.split_whitespace()).arg("--help").env("COLUMNS", "100").env_remove("ANTEROOM_URL");
    let ran = finish(help.stdin(Stdio::null()));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command} --help");
    Page { command: command.to_owned(), help: ran.stdout }
}

/// Every command in the order of the help, each before those below it.
fn pages() -> Vec<Page> {
    let mut found = vec![];
    let mut open = page("").subcommands();
    open.reverse();
    while let Some(command) = open.pop() {
        let page = page(&command);
        open.extend(page.subcommands().into_iter().rev());
        found.push(page);
    }
    found
}

#[test]
fn every_command_has_an_example_of_itself() {
    let pages = pages();
    assert!(pages.len() > 20, "{} commands were found", pages.len());
    for page in pages {
        let examples = page.examples();
        let of_itself = format!("anteroom {}", page.command);
        assert!(!examples.is_empty(), "{of_itself} has no example:\n{}", page.help);
        assert!(examples.iter().all(|example| example.contains(&of_itself)), "{of_itself}: {examples:?}");
    }
}

#[test]
fn no_command_takes_a_secret_as_an_argument() {
    for page in pages() {
        for option in ["--key ", "--key=", "--secret ", "--secret=", "--token", "--password"] {
            assert!(!page.help.contains(option), "{} has {option}", page.command);
        }
    }
}

#[test]
fn the_reference_is_what_the_commands_say() {
    let path = workspace_root().join("docs/cli.md");
    let written = fs::read_to_string(&path).unwrap();
    let (by_hand, _) = written.split_once(GENERATED_FROM_HERE).expect("docs/cli.md has its marker");
    let expected = format!("{by_hand}{GENERATED_FROM_HERE}\n{}", reference());
    if std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(written == expected, "run this test with ANTEROOM_WRITE_REFERENCES=1 to write docs/cli.md anew");
    let top = page("");
    let codes = top.block("Exit codes:");
    assert!(codes.len() >= 7);
    for line in codes {
        let code = line.split_whitespace().next().unwrap();
        assert!(by_hand.contains(&format!("| {code} |")), "docs/cli.md does not explain exit code {code}");
    }
}

/// Every command's help, the options that all share only once.
fn reference() -> String {
    let shared = page("room").block(SHARED_OPTIONS).join("\n");
    let options = "Options of every command that talks to a server";
    let mut parts = vec![format!("\n## {options}\n\n```text\n{shared}\n```\n")];
    for page in pages() {
        let repeated = format!("{SHARED_OPTIONS}\n{shared}\n");
        let help = page.help.replace(&repeated, "").trim_end().replace("\n\n\n", "\n\n");
        parts.push(format!("\n## anteroom {}\n\n```text\n{help}\n```\n", page.command));
    }
    parts.concat()
}

/// A server and a directory in which every example can be typed.
struct Shell {
    server: Server,
    operator: Operator,
    directory: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        let file = "events_directory = \"events\"\n[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Sample\"\n";
        let server = Server::builder(BINARY).config(file).start().expect("a server");
        fs::create_dir_all(server.directory().join("events")).expect("a directory of events");
        let directory = tempfile::tempdir().expect("a directory");
        let operator = Operator::of(&server).in_directory(directory.path());
        std::os::unix::fs::symlink(binary(), directory.path().join("anteroom")).expect("a link");
        let sample = workspace_root().join("anteroom.sample.toml");
        fs::copy(sample, directory.path().join("anteroom.toml")).expect("a configuration file");
        Self { server, operator, directory }
    }

    /// Puts everything where the examples of a command expect it: the room Hall as it was at first, keys, files.
    fn tidy(&self, command: &str) {
        let mut admin = self.server.operator();
        let put = Request::new("PUT", "/rooms/Hall")
            .header("Content-Type", "application/json")
            .body(json!({}).to_string());
        assert!(admin.send(&put).expect("an answer").status < 300);
        if command == "room create" {
            assert_eq!(admin.send(&Request::new("DELETE", "/rooms/Hall")).expect("an answer").status, 204);
        }
        for key in ["dashboard", "shop"] {
            admin.send(&Request::new("DELETE", &format!("/keys/{key}"))).expect("an answer");
        }
        if command == "key revoke" {
            admin.post("/keys", &json!({ "name": "dashboard", "role": "viewer" })).expect("an answer");
        }
        for client in ["Hall", "web", "app"] {
            let path = format!("/rooms/Hall/clients/{client}");
            admin.send(&Request::new("DELETE", &path)).expect("an answer");
        }
        if command.starts_with("client ") && command != "client create" {
            let web = json!({ "id": "web", "redirect_addresses": ["https://shop.example/callback"] });
            assert_eq!(admin.post("/rooms/Hall/clients", &web).expect("an answer").status, 201);
        }
        if command == "client revoke-previous" {
            let rotate = Request::new("POST", "/rooms/Hall/clients/web/secrets");
            assert_eq!(admin.send(&rotate).expect("an answer").status, 201);
        }
        for destination in ["shop", "bus", "stream", "log"] {
            let path = format!("/destinations/{destination}");
            admin.send(&Request::new("DELETE", &path)).expect("an answer");
        }
        if command.starts_with("destination ") && !command.starts_with("destination create") {
            // A test must arrive, so it goes to a file.
            let shop = match command {
                "destination test" => json!({ "name": "shop", "kind": "file" }),
                _ => json!({ "name": "shop", "kind": "webhook", "url": "https://shop.example/hooks" }),
            };
            assert_eq!(admin.post("/destinations", &shop).expect("an answer").status, 201);
        }
        if command == "destination create eventbridge" {
            fs::write(self.directory.path().join("aws"), "the-secret-of-an-access-key").expect("written");
        }
        if command == "destination rotate-secret" {
            let rotate = Request::new("POST", "/destinations/shop/secret");
            assert_eq!(admin.send(&rotate).expect("an answer").status, 201);
        }
        for file in ["anteroom.backup", "anteroom.backup.gz", "report.html"] {
            let _ = fs::remove_file(self.directory.path().join(file));
        }
        if command == "restore" {
            self.operator.done(&["backup", "anteroom.backup"]);
        }
    }

    /// A visitor of the Hall who is inside.
    fn admitted(&self) -> String {
        let mut line = self.server.line("Hall");
        let id = line.join();
        line.advance(1_000_000);
        assert_eq!(line.claim(&id).status, 200);
        id
    }

    /// Types a line into a shell.
    fn type_in(&self, command: &str, line: &str) {
        self.tidy(command);
        let mut bash = Command::new("bash");
        self.operator.surround(&mut bash);
        bash.env("KEY_ID", "AKIDEXAMPLEEXAMPLE00");
        bash.env("ANTEROOM_PUBLIC_URL", format!("http://{}", self.server.public()));
        let path = std::env::var("PATH").unwrap_or_default();
        bash.env("PATH", format!("{}:{path}", self.directory.path().display()));
        if command != "room create" {
            bash.env("ID", self.admitted());
            bash.env("ETAG", self.operator.done(&["room", "show", "Hall", "--etag"]).trim());
        }
        let ran = finish(bash.args(["-euo", "pipefail", "-c", line]));
        assert!(ran.code == Some(0) && !ran.stderr.contains("error:"), "{line}\n{ran:?}");
    }
}

/// Types a line that makes or reads a store of its own, in a directory of its own.
fn type_in_without_server(line: &str, configuration: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(binary(), directory.path().join("anteroom")).expect("a link");
    fs::copy(configuration, directory.path().join("anteroom.toml")).expect("a configuration file");
    let mut bash = Command::new("bash");
    Operator::at("http://127.0.0.1:1").in_directory(directory.path()).surround(&mut bash);
    let path = std::env::var("PATH").unwrap_or_default();
    bash.env("PATH", format!("{}:{path}", directory.path().display()));
    let ran = finish(bash.args(["-euo", "pipefail", "-c", line]));
    assert!(
        ran.code == Some(0) && !ran.stdout.is_empty() && !ran.stderr.contains("error:"),
        "{line}\n{ran:?}"
    );
}

/// Starts a server as the line says, with ports of its own, and ends it.
fn serve(line: &str, configuration: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    // A site and its capacity need no file, and do not go with its rooms.
    if !line.contains("--capacity") {
        fs::copy(configuration, directory.path().join("anteroom.toml")).expect("a configuration file");
    }
    let mut words = line.split_whitespace().skip(1);
    let mut builder =
        Server::builder(BINARY).directory(directory.path()).command(words.next().expect("a command"));
    for word in words {
        builder = builder.argument(word);
    }
    let mut server = builder.start().expect(line);
    assert_eq!(server.interrupt().expect(line).status.code(), Some(0), "{line}");
}

#[test]
fn every_example_of_every_commands_help_works_as_it_stands() {
    if !require("bash", finish(Command::new("bash").arg("--version")).code == Some(0)) {
        return;
    }
    let shell = Shell::new();
    let configuration = shell.directory.path().join("anteroom.toml");
    let mut typed = 0;
    for page in pages() {
        for example in page.examples() {
            match page.command.as_str() {
                // demo.rs runs it, and what it prints; two at once would compete for the ports that it prefers.
                "demo" => continue,
                "serve" => serve(example, &configuration),
                "check-config" => type_in_without_server(example, &configuration),
                _ if example.contains("--offline") => type_in_without_server(example, &configuration),
                // The default ports are those of a server in earnest; the operator's side has a variable.
                "load" => {
                    shell.type_in("load", &format!("{example} --public http://{}", shell.server.public()));
                }
                // What follows does not end by itself: `timeout` says so by 124.
                "events" if example.contains("--follow") => {
                    shell.type_in(
                        "events",
                        &format!("ended=0; timeout 1 {example} 2>/dev/null || ended=$?; test $ended = 124"),
                    );
                }
                command => shell.type_in(command, example),
            }
            typed += 1;
        }
    }
    assert!(typed > 30, "{typed} examples were typed");
}
