//! `anteroom demo` on a terminal: one line of figures that is written over, at any width; an end by Ctrl-C and by closing the window; and
//! nothing but text where the terminal knows nothing else.
//!
//! The terminal is a pseudo-terminal that `script` of util-linux makes.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anteroom_testkit::{Client, Request, require, wait_for, wait_until};

use crate::support::binary;

/// How long a demo may take to start, which makes an RSA key, and to do anything else.
const TIMEOUT: Duration = Duration::from_mins(3);
const LAST_WORDS: &str = "Ctrl-C ends it and deletes its data.\r\n\r\n";
/// What begins and ends a line that is written over.
const REDRAW: (&str, &str) = ("\r\x1b[?7l", "\x1b[K\x1b[?7h");
const CTRL_C: &[u8] = b"\x03";

/// A window with a demo in it.
struct Window {
    script: Child,
    shown: PathBuf,
    directory: tempfile::TempDir,
}

impl Window {
    /// Narrow, so that no line of figures fits; of a terminal of this name.
    fn open(terminal: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let shown = directory.path().join("shown");
        let temporary = directory.path().join("temporary");
        fs::create_dir(&temporary).expect("a directory");
        let command = format!("stty cols 40 rows 24; exec '{}' demo --visitors 0", binary().display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"]);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ANTEROOM_"))
        {
            script.env_remove(name);
        }
        script.env("TERM", terminal).env("TMPDIR", &temporary).env("SHELL", "/bin/sh");
        script.env("ANTEROOM_PUBLIC_ADDR", "127.0.0.1:0").env("ANTEROOM_PRIVATE_ADDR", "127.0.0.1:0");
        let output = File::create(&shown).expect("a file");
        script.stdin(Stdio::piped()).stdout(output).stderr(Stdio::null());
        let script = script.spawn().expect("script can be run");
        Self { script, shown, directory }
    }

    /// Everything that came to the window so far.
    fn screen_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.shown).expect("a file")).into_owned()
    }

    /// What came after the first screen.
    fn figures(&self) -> Option<String> {
        Some(self.screen_text().split_once(LAST_WORDS)?.1.to_owned())
    }

    fn types(&mut self, keys: &[u8]) {
        let keyboard = self.script.stdin.as_mut().expect("a keyboard");
        keyboard.write_all(keys).and_then(|()| keyboard.flush()).expect("the keys are pressed");
    }

    fn end(&mut self) -> ExitStatus {
        wait_for("the demo has ended", TIMEOUT, || self.script.try_wait().expect("a process"))
    }

    /// Whether the demo has put its data away.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.directory.path().join("temporary")).expect("a directory").count() == 0
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the window showed: {:?}", self.screen_text());
        }
        // With it goes the terminal, and so the demo.
        let _killed = self.script.kill();
        let _reaped = self.script.wait();
    }
}

fn require_script() -> bool {
    let mut script = Command::new("script");
    let asked = script.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    require("script (util-linux)", asked.status().is_ok_and(|status| status.success()))
}

#[test]
fn figures_are_written_over_in_a_narrow_window_and_follow_the_operator_until_ctrl_c() {
    if !require_script() {
        return;
    }
    let mut window = Window::open("xterm-256color");
    let redrawn = |window: &Window, least: usize, words: &str| {
        let figures = window.figures().unwrap_or_default();
        figures.matches(REDRAW.0).count() >= least && figures.contains(words)
    };
    wait_until("three lines of figures", TIMEOUT, || redrawn(&window, 3, "inside 0 of 1,"));
    let shown = window.screen_text();
    let operator = shown.split_once("Operators: http://").and_then(|(_, rest)| rest.split_once("/docs"));
    let operator = operator.expect("an address").0.parse().expect("an address");
    let places = Request::new("PATCH", "/rooms/shop").body(r#"{"settings":{"total_active_users":30}}"#);
    let answer = Client::new(operator).with_bearer("demo-key-not-a-secret").send(&places).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    wait_until("the screen shows the new number", TIMEOUT, || redrawn(&window, 4, "inside 0 of 30,"));
    window.types(CTRL_C);
    assert_eq!(window.end().code(), Some(0), "{:?}", window.screen_text());
    let figures = window.figures().expect("figures");
    let (line, rest) = figures.split_once("\r\n").expect("an end of the line");
    let redrawn: Vec<&str> = line.split(REDRAW.0).skip(1).collect();
    assert!(redrawn.len() >= 4 && line.starts_with(REDRAW.0), "{line:?}");
    // Between two lines nothing moves on; after the last one the terminal may have shown the key.
    let (last, before) = redrawn.split_last().expect("lines");
    assert!(before.iter().all(|text| text.ends_with(REDRAW.1) && text.starts_with("inside ")), "{line:?}");
    assert!(last.trim_end_matches("^C").ends_with(REDRAW.1), "{last:?}");
    assert!(!rest.contains('\x1b'), "{rest:?}");
    let message = rest.lines().last().expect("a last line");
    assert!(
        message.starts_with("Ended after ") && message.ends_with("never more than 0 of 30 inside at once."),
        "{message}"
    );
    assert!(window.is_clean());
}

#[test]
fn a_terminal_that_only_prints_gets_plain_lines() {
    if !require_script() {
        return;
    }
    let mut window = Window::open("dumb");
    wait_until("a line of figures", TIMEOUT, || {
        window.figures().is_some_and(|figures| figures.starts_with("inside ") && figures.contains("\r\n"))
    });
    window.types(CTRL_C);
    assert_eq!(window.end().code(), Some(0), "{:?}", window.screen_text());
    assert!(!window.screen_text().contains('\x1b'), "{:?}", window.screen_text());
    assert!(window.is_clean());
}

#[test]
fn closing_the_window_ends_the_demo_and_deletes_its_data() {
    if !require_script() {
        return;
    }
    let mut window = Window::open("xterm-256color");
    wait_until("figures", TIMEOUT, || window.figures().is_some_and(|figures| figures.contains("inside ")));
    assert!(!window.is_clean(), "its data is there");
    let shown = window.screen_text();
    let public = shown.split_once("Open  http://").and_then(|(_, rest)| rest.split_once('/'));
    let public = public.expect("an address").0.parse().expect("an address");
    window.script.kill().expect("the window closes");
    window.end();
    wait_until("its data is deleted", TIMEOUT, || window.is_clean());
    wait_until("nobody listens any more", TIMEOUT, || Client::new(public).get("/.anteroom/livez").is_err());
}
