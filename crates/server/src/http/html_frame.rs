//! The frame of the few readable pages that the API itself serves: no script, no external resources.

use axum::body::Body;
use http::header::{self, HeaderValue};

use crate::http::response::{ApiResponse, Caching, mark_json};

/// Allows nothing but the style that stands in the page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
);

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1b1f24;--muted:#57606a;--ground:#fff;--line:#d0d7de;--code:#f2f4f6;--mark:#0a5bd3}\
@media(prefers-color-scheme:dark){:root{--text:#e6e9ed;--muted:#9aa4af;--ground:#14171b;--line:#30363d;--code:#20252b;--mark:#78b0ff}}\
body{margin:0;background:var(--ground);color:var(--text);font:16px/1.55 system-ui,sans-serif}\
main{max-width:56rem;margin:0 auto;padding:2rem 1.25rem 4rem}\
h1{font-size:1.75rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .25rem}\
p{margin:.35rem 0}.lead{color:var(--muted)}a{color:var(--mark)}\
code,pre{background:var(--code);border-radius:4px;font:.9em ui-monospace,monospace}code{padding:.1em .3em;overflow-wrap:anywhere}\
pre{padding:.75rem;overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92em}\
th,td{text-align:left;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
section:target{outline:2px solid var(--mark);outline-offset:.5rem;border-radius:2px}\
.method{font-weight:700;display:inline-block;min-width:4.5em}\
nav{border-block:1px solid var(--line);padding:.25rem 0 1rem;margin:1.5rem 0}nav h3{font-size:.95rem;margin:1rem 0 .25rem}\
nav ul{list-style:none;margin:0;padding:0}nav li{padding:.15rem 0;display:grid;grid-template-columns:4.6em 1fr}nav li a{font-family:ui-monospace,monospace;font-size:.9em}.part{font-size:1.5rem;margin-top:4rem}\
.group{font-size:1.2rem;margin:3rem 0 .25rem}h4{font-size:1.05rem;margin:0 0 .25rem}h5{font-size:.9rem;margin:1rem 0 .25rem;color:var(--muted)}\
section>h4{margin-top:2rem;padding-top:1rem;border-top:1px solid var(--line)}h4 code{background:none;padding:0;font-size:1em}\
dl{margin:.25rem 0}dt{margin-top:.6rem}dd{margin:.1rem 0 .1rem 1.25rem}dd p,dd ul{margin:.15rem 0}dd ul{padding-left:1.1rem}\
@media(max-width:40rem){pre{white-space:pre-wrap;overflow-wrap:anywhere}}details{margin:.6rem 0}summary{cursor:pointer;color:var(--mark)}";

/// A whole page. `title` and `lead` are our own texts; `content` is markup.
pub(crate) fn page(title: &str, lead: &str, content: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Anteroom</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>{STYLE}</style></head>\
         <body><main><h1>{title}</h1><p class=\"lead\">{lead}</p>{content}</main></body></html>\n"
    )
}

/// Such a page as an answer.
pub(crate) fn answer(page: String) -> ApiResponse {
    let mut response = ApiResponse::new(Body::from(page));
    let headers = response.headers_mut();
    mark_json(headers, Caching::Keys);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
