//! A real nginx and a real Apache as origins.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{DEADLINE, Front};
use anteroom_proxy::ProxySettings;
use anteroom_testkit::{Client, Request, Wire, require, wait_until};

/// A real web server, with files of a directory of its own. It ends when it is dropped.
struct RealOrigin {
    address: SocketAddr,
    child: Child,
    directory: tempfile::TempDir,
}

impl RealOrigin {
    /// Starts a program in the foreground with the configuration that `configure` makes for a directory and a port.
    fn start(program: &str, arguments: &[&str], configure: fn(&Path, u16) -> String) -> Option<Self> {
        let found =
            ["/usr/sbin", "/usr/bin", "/usr/local/sbin"].map(|place| PathBuf::from(place).join(program));
        let found = found.into_iter().find(|path| path.exists());
        if !require(program, found.is_some()) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("small.txt"), "x".repeat(1024)).unwrap();
        fs::write(root.join("large.bin"), vec![b'l'; 20_000_000]).unwrap();
        // Free when it was looked for; another process could only take it in the moment between.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let configuration = directory.path().join("server.conf");
        fs::write(&configuration, configure(directory.path(), port)).unwrap();
        let child = Command::new(found?)
            .args(arguments)
            .arg(&configuration)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let origin = Self { address, child, directory };
        wait_until("it listens", DEADLINE, || TcpStream::connect(address).is_ok());
        Some(origin)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("access.log")).unwrap_or_default()
    }
}

impl Drop for RealOrigin {
    fn drop(&mut self) {
        // Both end their workers when they are told politely.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn nginx() -> Option<RealOrigin> {
    RealOrigin::start("nginx", &["-e", "stderr", "-c"], |directory, port| {
        let directory = directory.display();
        format!(
            "daemon off; worker_processes 1; pid {directory}/pid; user root; error_log stderr crit;
             events {{ worker_connections 128; }}
             http {{
               log_format short '$connection $request $status';
               access_log {directory}/access.log short;
               client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
               fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
               server {{
                 listen 127.0.0.1:{port};
                 root {directory}/root;
                 client_max_body_size 1m;
                 location = /host {{ return 200 \"$host|$http_x_forwarded_for|$http_cdn_loop\"; }}
                 location = /close {{ keepalive_timeout 0; return 200 closing; }}
                 location = /moved {{ return 302 /small.txt; }}
                 location = /chunked {{ gzip on; gzip_types *; gzip_min_length 1; alias {directory}/root/small.txt; }}
               }}
             }}"
        )
    })
}

fn apache() -> Option<RealOrigin> {
    RealOrigin::start("apache2", &["-D", "FOREGROUND", "-f"], |directory, port| {
        let directory = directory.display();
        let modules = ["mpm_event", "authz_core", "alias", "headers", "deflate", "filter"]
            .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
            .concat();
        format!(
            "ServerRoot {directory}\n{modules}Listen 127.0.0.1:{port}\nServerName localhost\nPidFile {directory}/pid\n\
             ErrorLog {directory}/error.log\nLogLevel crit\nDocumentRoot {directory}/root\nStartServers 1\n\
             LogFormat \"%k %r %>s\" short\nCustomLog {directory}/access.log short\n\
             DefaultRuntimeDir {directory}\nMutex fcntl:{directory}\nKeepAliveTimeout 5\nLimitRequestBody 1048576\n\
             Redirect 302 /moved /small.txt\n\
             <Location /small.txt>\nHeader set X-Seen \"seen\"\n</Location>\n\
             <Location /chunked>\nSetOutputFilter DEFLATE\n</Location>\nAlias /chunked {directory}/root/small.txt\n"
        )
    })
}

/// What any origin that serves files must do behind us.
fn serves(origin: &RealOrigin) {
    let front = Front::before(origin.address, ProxySettings::default());
    let mut client = Client::new(front.address);
    for _ in 0..50 {
        let answer = client.get("/small.txt").unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 1024));
    }
    // One connection carried them all.
    let view = front.origins.view();
    assert_eq!((view.in_flight, view.connections), (0, 1));
    let answer = client.get("/large.bin").unwrap();
    assert!(answer.status == 200 && answer.body == vec![b'l'; 20_000_000]);
    let head = client.send(&Request::new("HEAD", "/large.bin")).unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("20000000")));
    let part = client.send(&Request::new("GET", "/large.bin").header("Range", "bytes=5-14")).unwrap();
    assert_eq!((part.status, part.body.as_slice()), (206, &[b'l'; 10][..]));
    let tag = answer.header("etag").unwrap();
    let unchanged = client.send(&Request::new("GET", "/large.bin").header("If-None-Match", tag)).unwrap();
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    assert_eq!(client.get("/missing").unwrap().status, 404);
    let moved = client.get("/moved").unwrap();
    assert_eq!(moved.status, 302);
    assert!(moved.header("location").unwrap().ends_with("/small.txt"));
    let packed = client.send(&Request::new("GET", "/chunked").header("Accept-Encoding", "gzip")).unwrap();
    assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("gzip")));
    assert!(packed.body.starts_with(&[0x1f, 0x8b]));
    refuses_what_is_too_large(&front);
    // After all this it still answers, and nothing is left in flight.
    assert_eq!(Client::new(front.address).get("/small.txt").unwrap().status, 200);
    front.comes_to_rest();
    wait_until("it is in its log", DEADLINE, || origin.log().contains("/large.bin"));
}

/// An origin that answers before it has read the body, and then closes.
fn refuses_what_is_too_large(front: &Front) {
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    wire.write(b"POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n").unwrap();
    let piece = vec![b'p'; 100_000];
    for _ in 0..300 {
        if wire.write(&piece).is_err() {
            break;
        }
    }
    // The reset that follows may overtake the answer on its way to us or to the client.
    if let Ok(Some(answer)) = wire.read_answer() {
        assert!([413, 405, 502].contains(&answer.status), "{answer:?}");
    }
}

#[test]
fn nginx_as_an_origin() {
    let Some(origin) = nginx() else { return };
    serves(&origin);
    let front = Front::before(origin.address, ProxySettings::default());
    let mut client = Client::new(front.address);
    let seen = client.get("/host").unwrap().text();
    assert_eq!(seen, "127.0.0.1|192.0.2.7|anteroom");
    for _ in 0..5 {
        assert_eq!(client.get("/close").unwrap().text(), "closing");
    }
    front.comes_to_rest();
}

#[test]
fn apache_as_an_origin() {
    let Some(origin) = apache() else { return };
    serves(&origin);
}
