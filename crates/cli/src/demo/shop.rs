//! The demo's sample shop: a small site that stands for the one to protect. It knows nothing of Anteroom but one header: when
//! somebody has bought something, it says that his visit is complete, so that his slot is free for the next.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What is for sale: name, price, and a word about it.
const GOODS: [(&str, &str, &str); 4] = [
    ("stalls", "49", "Row 12, in the middle. You will see everything."),
    ("balcony", "29", "High above it all, with the best sound of the house."),
    ("box", "120", "For four people who want to whisper."),
    ("standing", "15", "At the back. Bring good shoes."),
];
/// How the shop tells the gateway that a visit is over.
const VISIT_COMPLETE: (&str, HeaderValue) = ("anteroom-session", HeaderValue::from_static("complete"));

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#221a14;--ground:#fbf7f2;--card:#fff;--line:#e5d9cc;--mark:#a3341f;--on:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#f2ebe4;--ground:#17130f;--card:#211b16;--line:#3b3129;--mark:#f0896f;--on:#22120c}}\
body{margin:0;background:var(--ground);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}\
main{max-width:44rem;margin:0 auto;padding:1.5rem 1.25rem}header{border-bottom:1px solid var(--line);padding:1rem 1.25rem;font-weight:700}\
ul{list-style:none;padding:0;display:grid;gap:.8rem}li,.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem}\
a{color:var(--mark)}button,input{font:inherit;padding:.5rem .8rem;border-radius:8px;border:1px solid var(--line);background:var(--card);color:inherit}\
button{background:var(--mark);color:var(--on);border-color:var(--mark);cursor:pointer}";

/// Opens the shop on a free port of this machine, on a thread of its own, until the process ends.
pub(super) fn open() -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("shop".into()).spawn(move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => serve(listener).await,
                Err(error) => eprintln!("the sample shop does not open: {error}"),
            }
        });
    })?;
    Ok(address)
}

async fn serve(listener: TcpListener) {
    // Ends with this function, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let mut builder = hyper::server::conn::http1::Builder::new();
            let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
            // A customer who hangs up has no complaint to make.
            let _ = builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    match (request.method(), path) {
        (&Method::GET | &Method::HEAD, "/") => page(StatusCode::OK, "Tickets for tonight", &search("")),
        (&Method::GET | &Method::HEAD, "/search") => {
            let wanted = request.uri().query().and_then(|query| query.strip_prefix("q=")).unwrap_or_default();
            page(StatusCode::OK, "Tickets for tonight", &search(&wanted.to_ascii_lowercase()))
        }
        (&Method::POST, "/checkout") => {
            let content = "<div class=card><p>Thank you. Your ticket is on its way.</p>\
                 <p>Your visit is over, and your slot is already somebody else's. <a href=\"/\">Come back</a>, and you stand in line again if there is one.</p></div>";
            let mut response = page(StatusCode::OK, "Bought", content);
            response.headers_mut().insert(VISIT_COMPLETE.0, VISIT_COMPLETE.1);
            response
        }
        (&Method::GET | &Method::HEAD, path) => match GOODS
            .iter()
            .find(|(name, ..)| path.strip_prefix("/product/") == Some(name))
        {
            Some((name, price, words)) => {
                let content = format!(
                    "<div class=card><p>{words}</p><p><strong>€ {price}</strong></p>\
                     <form method=post action=\"/checkout\"><button>Buy</button></form></div><p><a href=\"/\">Back</a></p>"
                );
                page(StatusCode::OK, name, &content)
            }
            None => {
                page(StatusCode::NOT_FOUND, "Not here", "<p>We do not sell that. <a href=\"/\">Back</a></p>")
            }
        },
        _ => page(StatusCode::METHOD_NOT_ALLOWED, "Not like that", "<p><a href=\"/\">Back</a></p>"),
    }
}

fn search(wanted: &str) -> String {
    let found = GOODS
        .iter()
        .filter(|(name, _, words)| name.contains(wanted) || words.to_ascii_lowercase().contains(wanted));
    let items: Vec<String> = found
        .map(|(name, price, words)| {
            format!("<li><a href=\"/product/{name}\">{name}</a> · € {price}<br>{words}</li>")
        })
        .collect();
    let items = items.concat();
    format!(
        "<form action=\"/search\"><input name=q aria-label=\"What do you look for?\"> <button>Search</button></form><ul>{items}</ul>"
    )
}

fn page(status: StatusCode, title: &str, content: &str) -> Response<Full<Bytes>> {
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · The Sample Theatre</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head>\
         <body><header>The Sample Theatre</header><main><h1>{title}</h1>{content}</main></body></html>\n"
    );
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}
