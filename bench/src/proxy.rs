//! The gateway against nginx: a proxied GET of 1 KiB, the limiter and the verdict on, over connections that are kept.
//!
//! Four proxies stand before one origin and take turns: Anteroom as it ships; nginx with `proxy_pass`, `keepalive` and `limit_req`; and
//! our proxy alone, without the phases before it, once on one runtime for all cores and once on one runtime a core.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::figures::median;
use crate::load::{Connection, Requests, block_on, run_load};
use crate::servers::{Anteroom, are_pinned, pinned_command};

/// What the origin answers, in bytes.
const BODY_BYTES: usize = 1024;
/// How long nginx may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Clock ticks a second in `/proc`, which is the same on every Linux that has one of our targets.
const TICKS_A_SECOND: f64 = 100.0;
/// What the limiter of both allows: more than anybody asks for, so that every decision is to let it through.
pub(crate) const LIMIT_A_SECOND: u32 = 1_000_000;

/// Everything that is measured, one after the other.
pub(crate) fn compare(binary: &str, rounds: usize, round: Duration) -> Result<()> {
    let site = Site::start()?;
    let anteroom = site.protect(binary)?;
    let origin = site.origin.address;
    let nginx = Nginx::proxy(origin)?;
    let shared = BareProxy::start("shared", origin)?;
    let per_core = BareProxy::start("per-core", origin)?;
    let requests = [visitor(&anteroom)?];
    let servers = [
        ("Anteroom", anteroom.public(), anteroom.process_id()),
        ("nginx", nginx.address, nginx.child.id()),
        ("our proxy alone", shared.address, shared.child.id()),
        ("our proxy alone, one runtime a core", per_core.address, per_core.child.id()),
    ];
    println!(
        "| proxied GET of 1 KiB | connections | a second | of nginx (gate 0.8, goal 0.9) | CPU µs a request | of nginx |"
    );
    println!("|---|---|---|---|---|---|");
    for connections in [64, 256] {
        let mut measured: Vec<ProxyFigures> = servers.iter().map(|_| ProxyFigures::default()).collect();
        // One round of each first that is not counted: caches, buffers, connections to the origin.
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, rounds)) {
            for ((_, address, process), measured) in servers.iter().zip(&mut measured) {
                let (cpu, started) = (cpu_seconds(*process)?, Instant::now());
                let rate = run_load(*address, &requests, connections, round)?;
                let requests = rate * started.elapsed().as_secs_f64();
                let cpu = cpu_seconds(*process)? - cpu;
                if counted {
                    measured.rates.push(rate);
                    measured.micros.push(cpu / requests * 1e6);
                }
            }
        }
        let (their_rate, their_micros) = measured[1].medians();
        for ((name, ..), measured) in servers.iter().zip(&measured) {
            let (rate, micros) = measured.medians();
            println!(
                "| {name} | {connections} | {rate:.0} | **{:.2}** | {micros:.1} | {:.2} |",
                rate / their_rate,
                micros / their_micros
            );
        }
    }
    Ok(())
}

#[derive(Default)]
struct ProxyFigures {
    rates: Vec<f64>,
    micros: Vec<f64>,
}

impl ProxyFigures {
    fn medians(&self) -> (f64, f64) {
        (median(&self.rates), median(&self.micros))
    }
}

/// The site that is proxied: an origin, and Anteroom before it.
pub(crate) struct Site {
    origin: Nginx,
}

impl Site {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { origin: Nginx::origin()? })
    }

    /// Anteroom before it, limiter and verdict on.
    pub(crate) fn protect(&self, binary: &str) -> Result<Anteroom> {
        Anteroom::with_configuration(binary, &configuration(self.origin.address))
    }

    /// A request of a visitor who is inside.
    pub(crate) fn visitor(anteroom: &Anteroom) -> Result<Requests> {
        visitor(anteroom)
    }
}

/// Everybody is limited, and the site has a line.
fn configuration(origin: SocketAddr) -> String {
    format!(
        "origin = \"http://{origin}\"\ncapacity = 100000\nlimits_exempt = \"none\"\n[[limit]]\nname = \"site\"\nby = \"ip\"\n\
         class = \"gateway\"\nrequests = {LIMIT_A_SECOND}\nper_seconds = 1\n"
    )
}

/// A request of a visitor who is inside, as a browser sends it. The others get the same bytes.
fn visitor(anteroom: &Anteroom) -> Result<Requests> {
    let head = "user-agent: Mozilla/5.0 (X11; Linux x86_64) bench\r\naccept: text/html,application/xhtml+xml\r\n\
        accept-encoding: gzip, deflate, br\r\naccept-language: en\r\n";
    let asks = |request: Requests| {
        block_on(async {
            let mut connection = Connection::open(anteroom.public()).await?;
            let (status, body_at) = connection.call(&request).await?;
            let (answer, body) = connection.last(body_at)?;
            let line = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
            let cookie = line.and_then(|line| line.split(';').next());
            let cookie = cookie.with_context(|| format!("no cookie in {answer}"))?.to_owned();
            Ok((cookie, status == 200 && body.len() == BODY_BYTES))
        })
    };
    let with_cookie = |cookie: &str| Requests::with_head("/", &format!("{head}cookie: {cookie}\r\n"));
    // The first cookie says that the visitor has arrived; when it comes back the visitor is let in.
    let (arrived, _) = asks(Requests::with_head("/", head))?;
    let (cookie, is_inside) = asks(with_cookie(&arrived))?;
    ensure!(is_inside, "the visitor was not let in");
    Ok(with_cookie(&cookie))
}

/// CPU time that a process and its children have used.
pub(crate) fn cpu_seconds(process: u32) -> Result<f64> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let mut ticks = 0.0;
    for process in children.split_whitespace().map(str::to_owned).chain([process.to_string()]) {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name, in parentheses, may have spaces; what is behind it has none.
        let behind = stat.rsplit(')').next().context("no name in stat")?;
        let fields: Vec<&str> = behind.split_whitespace().collect();
        for field in [11, 12] {
            ticks += fields.get(field).context("no CPU time in stat")?.parse::<f64>()?;
        }
    }
    Ok(ticks / TICKS_A_SECOND)
}

/// An nginx of its own, in the foreground.
pub(crate) struct Nginx {
    child: Child,
    pub(crate) address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Nginx {
    /// What is proxied: 1 KiB out of memory, on the core of the load.
    pub(crate) fn origin() -> Result<Self> {
        let body = "x".repeat(BODY_BYTES);
        let server = format!("keepalive_requests 1000000000; location / {{ return 200 {body}; }}");
        Self::start(Command::new("nginx"), 1, "", &server)
    }

    /// What we are compared with.
    fn proxy(origin: SocketAddr) -> Result<Self> {
        let mut http = String::new();
        write!(http, "limit_req_zone $binary_remote_addr zone=clients:10m rate={LIMIT_A_SECOND}r/s;")?;
        write!(http, "upstream origin {{ server {origin}; keepalive 256; keepalive_requests 1000000000; }}")?;
        let server = format!(
            "keepalive_requests 1000000000;
             location / {{
               limit_req zone=clients burst={LIMIT_A_SECOND} nodelay;
               proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
               proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
               proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;
             }}"
        );
        let workers = if are_pinned() { 1 } else { std::thread::available_parallelism()?.get() };
        Self::start(pinned_command("nginx"), workers, &http, &server)
    }

    /// One that asks for a verdict before it passes a request on, or asks nobody.
    pub(crate) fn checking(origin: SocketAddr, verdicts: Option<SocketAddr>) -> Result<Self> {
        let kept = "keepalive 256; keepalive_requests 1000000000;";
        let mut http = format!("upstream origin {{ server {origin}; {kept} }}");
        let mut server = "keepalive_requests 1000000000;
             location / {
               CHECK
               proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
               proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
             }"
        .to_owned();
        let mut check = "";
        if let Some(verdicts) = verdicts {
            write!(http, "upstream verdicts {{ server {verdicts}; {kept} }}")?;
            check = "auth_request /verdict;
               auth_request_set $visit $upstream_http_anteroom_visit; proxy_set_header Anteroom-Visit $visit;
               auth_request_set $renewed $upstream_http_set_cookie; add_header Set-Cookie $renewed;";
            server.push_str(
                "location = /verdict {
                   internal;
                   proxy_pass http://verdicts/check/nginx/site; proxy_http_version 1.1; proxy_set_header Connection \"\";
                   proxy_pass_request_body off; proxy_set_header Content-Length \"\";
                   proxy_set_header X-Original-Method $request_method;
                   proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
                   proxy_set_header X-Forwarded-For $remote_addr;
                 }",
            );
        }
        let server = server.replace("CHECK", check);
        let workers = if are_pinned() { 1 } else { std::thread::available_parallelism()?.get() };
        Self::start(pinned_command("nginx"), workers, &http, &server)
    }

    fn start(mut command: Command, workers: usize, http: &str, server: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let place = directory.path().display();
        // It cannot choose a port by itself; so one that was free just now.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {place}/{kind};"))
            .concat();
        let configuration = directory.path().join("nginx.conf");
        fs::write(
            &configuration,
            format!(
                "daemon off; worker_processes {workers}; pid {place}/pid; error_log stderr error;
                 events {{ worker_connections 4096; }}
                 http {{ access_log off; {temporary} {http} server {{ listen {address}; {server} }} }}"
            ),
        )?;
        command.args(["-e", "stderr", "-c"]).arg(&configuration).stdin(Stdio::null());
        let child = command.spawn().context("nginx does not start; is it installed?")?;
        let nginx = Self { child, address, _directory: directory };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if started.elapsed() > START_TIMEOUT {
                bail!("nginx does not listen");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Told politely, it ends its workers.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Our proxy without anything before it.
struct BareProxy {
    child: Child,
    address: SocketAddr,
}

impl BareProxy {
    fn start(runtimes: &str, origin: SocketAddr) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = pinned_command(&program.display().to_string())
            .args(["forward", runtimes, &format!("http://{origin}")])
            .stdout(Stdio::piped())
            .spawn()
            .context("the bare proxy does not start")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default().parse()?;
        Ok(Self { child, address })
    }
}

impl Drop for BareProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
