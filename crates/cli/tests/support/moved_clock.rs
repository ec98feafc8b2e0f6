//! A machine whose clock is wrong: the real binary under a clock that the test moves.

use std::path::{Path, PathBuf};
use std::process::Command;

use anteroom_testkit::{Builder, require};

/// Loaded before the system's library: it adds to the clock what a file says.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    const char *path = getenv("CLOCK_OFFSET_FILE");
    if (result != 0 || id != CLOCK_REALTIME || path == NULL) return result;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return result;
    char text[32] = {0};
    if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
    close(file);
    return result;
}
"#;

/// A clock that a test moves.
pub(crate) struct MovedClock {
    directory: tempfile::TempDir,
}

impl MovedClock {
    /// `None` where there is no compiler.
    pub(crate) fn build() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let source = directory.path().join("clock.c");
        std::fs::write(&source, SHIM).expect("written");
        let clock = Self { directory };
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(clock.library()).arg(&source).status();
        if !require("cc", built.is_ok_and(|status| status.success())) {
            return None;
        }
        clock.set(0);
        Some(clock)
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("clock.so")
    }

    fn offset_file(&self) -> PathBuf {
        self.directory.path().join("offset")
    }

    /// Replaces the file as a whole, so that nobody reads half of it.
    pub(crate) fn set(&self, seconds: i64) {
        let next = self.directory.path().join("next");
        std::fs::write(&next, seconds.to_string()).expect("written");
        std::fs::rename(&next, self.offset_file()).expect("renamed");
    }

    /// This server under that clock.
    pub(crate) fn applied_to(&self, server: Builder) -> Builder {
        let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
        server.env("LD_PRELOAD", text(&self.library())).env("CLOCK_OFFSET_FILE", text(&self.offset_file()))
    }
}
