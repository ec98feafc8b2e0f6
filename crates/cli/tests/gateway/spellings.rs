//! Every spelling of a protected path and host that some server routes to the same handler is held; and what names another target
//! than the one that was checked never reaches the site.

use anteroom_testkit::{Answer, Request};
use serde_json::json;

use crate::stand::Stand;

/// A site of two hosts, of which nobody gets into `/checkout` of one.
const CONFIG: &str = "origin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\nhosts = [\"shop.example\", \"www.example\"]\n\
    paths = [\"/checkout\", \"/caf%C3%A9/menu\"]\nbypass = [\"path:/checkout/static/\", \"method:OPTIONS\"]\n\
    inlet = \"max-size\"\ntotal_active_users = 0\n[[room]]\nid = \"Idle\"\n";

/// Target, and who reads it as `/checkout`, or as the menu.
const SPELLINGS: &[(&str, &str)] = &[
    ("/checkout", "everybody"),
    ("/checkout/", "Express, Rails"),
    ("/checkout/pay", "everybody"),
    ("/checkout?a=b", "everybody"),
    ("/checkout?/../other", "everybody"),
    ("/CHECKOUT", "Express, ASP.NET, files on Windows and macOS"),
    ("/Checkout/Pay", "Express, ASP.NET"),
    ("/chec%4Bout", "Express, ASP.NET"),
    ("/%43HECKOUT", "ASP.NET"),
    ("/checkout.json", "Rails"),
    ("/checkout.html", "static servers that drop endings"),
    ("/checkout.php", "PHP, MultiViews"),
    ("/checkout.php/pay", "PHP"),
    ("/checkout.aspx", "ASP.NET"),
    ("/checkout.", "files on Windows"),
    ("/checkout...", "files on Windows"),
    ("/checkout%20", "files on Windows"),
    ("/checkout%09", "frameworks that trim"),
    ("/checkout%0a", "regular expressions that end in $"),
    ("/checkout%0d%0a", "regular expressions that end in $"),
    ("/checkout::$DATA", "files on Windows"),
    ("/checkout:$i30:$INDEX_ALLOCATION/pay", "directories on Windows"),
    ("/checkout;jsessionid=1", "Tomcat, Jetty"),
    ("/checkout;a=1/pay", "Tomcat, Jetty"),
    ("/;a=1/checkout", "Tomcat, Jetty"),
    ("/checkout%3ba=1", "Tomcat behind a proxy that decodes"),
    ("/%63heckout", "everybody"),
    ("/%63%68%65%63%6b%6f%75%74", "everybody"),
    ("/%2563heckout", "servers that decode twice"),
    ("/%252563heckout", "servers that decode three times"),
    ("/%u0063heckout", "IIS"),
    ("/%uff43heckout", "IIS, best fit"),
    ("//checkout", "nginx, Apache, Rails"),
    ("///checkout//pay", "nginx, Apache, Rails"),
    ("/%2fcheckout", "Rails, servers that decode first"),
    ("//any.example/checkout", "Node's URL"),
    ("/\\any.example/checkout", "Node's URL"),
    ("/./checkout", "static servers"),
    ("/%2e/checkout", "static servers"),
    ("/other/../checkout", "static servers"),
    ("/other/%2e%2e/checkout", "static servers"),
    ("/other/%2E./checkout", "static servers"),
    ("/other/..%2fcheckout", "static servers that decode first"),
    ("/other%2f..%2fcheckout", "static servers that decode first"),
    ("/other/..;/checkout", "Tomcat"),
    ("/other/..;a=b/checkout", "Tomcat"),
    ("/../checkout", "static servers"),
    ("/other/%252e%252e/checkout", "servers that decode twice"),
    ("/other/..%252fcheckout", "servers that decode twice"),
    ("/other\\..\\checkout", "IIS"),
    ("/other/..%5ccheckout", "IIS"),
    ("/%5ccheckout", "IIS"),
    ("\\checkout", "IIS"),
    ("/checkout%5cpay", "IIS"),
    ("/checkout%2fpay", "IIS, Rails"),
    ("/checkout/../checkout", "everybody"),
    ("//checkout/..", "Rails: it joins slashes and resolves nothing"),
    ("/other/../%63heckout/%2e%2e/x", "servers that resolve, then decode"),
    ("/checkout/static/../pay", "static servers"),
    ("/checkout/static/%2e%2e/pay", "static servers"),
    ("/checkout/static/..%5cpay", "IIS"),
    ("/checkout/Static/a.css", "not what bypasses"),
    ("/checkout/%73tatic/a.css", "not what can only bypass"),
    ("//checkout/static/a.css", "not what can only bypass"),
    ("/checkout%00", "PHP, C"),
    ("/checkout%00.css", "PHP, C"),
    ("/other/../checkout%00/../../x", "PHP, C"),
    ("/checkout%3fa=b", "servers that decode first"),
    ("/checkout%23a", "servers that decode first"),
    ("/checkout#a", "everybody"),
    ("/%c1%a3heckout", "decoders that take overlong forms"),
    ("/%e0%81%a3heckout", "decoders that take overlong forms"),
    ("/other/%c0%ae%c0%ae/checkout", "decoders that take overlong forms"),
    ("/other%c0%af..%c0%afcheckout", "decoders that take overlong forms"),
    ("/chec%e2%84%aaout", "case folding of the Kelvin sign"),
    ("/%ef%bc%a3heckout", "compatibility forms"),
    ("/ch%c3%a9ckout", "collations without accents"),
    ("/checkout%e2%80%8b", "trimmed in Unicode"),
    ("/checkout%c2%a0", "trimmed in Unicode"),
    ("/(S(abc))/checkout", "ASP.NET"),
    ("/(A(a)F(b)S(c))/checkout", "ASP.NET"),
    ("http://shop.example/checkout", "everybody"),
    ("HTTP://SHOP.EXAMPLE:80/checkout", "everybody"),
    ("http://shop.example//checkout", "everybody"),
    ("/café/menu", "everybody"),
    ("/caf%c3%a9/menu", "everybody"),
    ("/cafe%cc%81/menu", "files on macOS"),
    ("/CAF%C3%89/MENU.json", "Rails, ASP.NET"),
    ("/caf%e9/menu", "servers that read Latin-1"),
    ("/caf%C3%A9./menu", "files on Windows"),
];

/// Spellings of a host that the origin may serve as `shop.example`.
const HOSTS: &[&str] = &[
    "SHOP.EXAMPLE",
    "shop.example.",
    "shop.example:80",
    "shop.example:8443",
    "Shop.Example.:443",
    "shop.example..",
    "127.0.0.1",
    "127.0.0.1:80",
    "[::1]",
    "localhost",
    "other.example",
    "shop.example.other.example",
    "xshop.example",
    "user@shop.example",
    "shop.example, other.example",
    "shop.example/x",
    "shop%2eexample",
    "",
];

fn raw(stand: &Stand, target: &str, headers: &str) -> Answer {
    let bytes = format!("GET {target} HTTP/1.1\r\n{headers}Accept: */*\r\nConnection: close\r\n\r\n");
    let answer = stand.server.visitor().send_raw(bytes.as_bytes()).expect("an answer");
    answer.unwrap_or_else(|| panic!("no answer to {target} {headers:?}"))
}

#[track_caller]
fn assert_held(stand: &Stand, answer: &Answer, what: &str) {
    assert!(!answer.is_from_site() && matches!(answer.status, 400 | 421 | 503), "{what}: {answer:?}");
    let seen = stand.site.request_log();
    assert!(seen.is_empty(), "{what} reached the site: {seen:?}");
}

#[test]
fn every_spelling_of_a_protected_path_and_host_is_held() {
    let stand = Stand::configured(CONFIG);
    for (target, reader) in SPELLINGS {
        let answer = raw(&stand, target, "Host: shop.example\r\n");
        assert_held(&stand, &answer, &format!("{target} ({reader})"));
    }
    for host in HOSTS {
        for target in ["/checkout", "/CHECKOUT.json"] {
            assert_held(&stand, &raw(&stand, target, &format!("Host: {host}\r\n")), &format!("{host:?}"));
        }
    }
    for headers in [
        "Host: other.example\r\nX-Forwarded-Host: shop.example\r\n",
        "Host: shop.example\r\nHost: other.example\r\n",
        "Host: other.example\r\nHost: shop.example\r\n",
        "Host: shop.example\r\nX-Forwarded-Host: other.example\r\n",
    ] {
        assert_held(&stand, &raw(&stand, "/checkout", headers), headers);
    }
    let contradiction = raw(&stand, "http://other.example/checkout", "Host: shop.example\r\n");
    assert_held(&stand, &contradiction, "a target that names another host");
    let bytes = b"GET /checkout HTTP/1.0\r\n\r\n";
    let nameless = stand.server.visitor().send_raw(bytes).expect("an answer").expect("an answer");
    assert_held(&stand, &nameless, "no host");
    let overridden =
        "OPTIONS /checkout HTTP/1.1\r\nHost: shop.example\r\nX-HTTP-Method-Override: POST\r\n\r\n";
    let overridden = stand.server.visitor().send_raw(overridden.as_bytes()).expect("an answer");
    assert_held(&stand, &overridden.expect("an answer"), "another method than the one that bypasses");
}

#[test]
fn what_only_looks_like_a_protected_path_goes_through() {
    let stand = Stand::configured(CONFIG);
    for target in [
        "/",
        "/checkouts",
        "/checkout-help",
        "/checkout_help",
        "/check",
        "/other/checkout",
        "/checkout/static/a.css",
        "/caf%C3%A9",
        "/a%20b;c=d?/checkout",
        "/other/../x",
    ] {
        for host in ["shop.example", "WWW.example:8080"] {
            let answer = raw(&stand, target, &format!("Host: {host}\r\n"));
            assert!(answer.is_from_site(), "{host}{target}: {answer:?}");
        }
    }
    stand.set("paths_exact", &json!(true));
    for target in ["/CHECKOUT", "/checkout.json", "/cafe/menu"] {
        assert!(raw(&stand, target, "Host: shop.example\r\n").is_from_site(), "{target}");
    }
    for target in ["/checkout", "/checkout;a=1", "/%63heckout", "//checkout", "/other/../checkout"] {
        assert_eq!(raw(&stand, target, "Host: shop.example\r\n").status, 503, "{target}");
    }
}

#[test]
fn a_host_that_no_room_names_is_misdirected_unless_it_may_pass() {
    let stand = Stand::configured(CONFIG);
    let strange = raw(&stand, "/", "Host: 127.0.0.1\r\n");
    assert_eq!((strange.status, stand.site.requests()), (421, 0), "{strange:?}");
    strange.error();
    let room = raw(&stand, "/.anteroom/rooms/Hall", "Host: 127.0.0.1\r\n");
    assert_eq!(room.status, 200, "our own API has no host: {room:?}");
    // As soon as no room names hosts, every host is known.
    stand.set("hosts", &json!([]));
    assert!(raw(&stand, "/", "Host: 127.0.0.1\r\n").is_from_site());
    assert_eq!(raw(&stand, "/checkout", "Host: 127.0.0.1\r\n").status, 503);

    let stand = Stand::configured(&format!("unknown_hosts = \"pass\"\n{CONFIG}"));
    assert!(raw(&stand, "/checkout", "Host: 127.0.0.1\r\n").is_from_site());
    assert_eq!(raw(&stand, "/checkout", "Host: shop.example\r\n").status, 503);
}

#[test]
fn a_path_that_leads_to_two_rooms_is_refused() {
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\n[[room]]\nid = \"Easy\"\npaths = [\"/a-long-path-of-an-easy-room\"]\n\
         [[room]]\nid = \"Hard\"\npaths = [\"/b\"]\ninlet = \"max-size\"\ntotal_active_users = 0\n",
    );
    for target in [
        "/a-long-path-of-an-easy-room/../b",
        "/b/%2e%2e/a-long-path-of-an-easy-room",
        "//a-long-path-of-an-easy-room/b",
        "/%2fa-long-path-of-an-easy-room/b",
        // More readings than are followed.
        &format!("/a-long-path-of-an-easy-room/%{}41", "25".repeat(80)),
    ] {
        let answer = raw(&stand, target, "Host: shop.example\r\n");
        assert_eq!((answer.status, stand.site.requests()), (400, 0), "{target}: {answer:?}");
    }
    assert_eq!(raw(&stand, "//b", "Host: shop.example\r\n").status, 503, "one room");
    for target in ["/x/../y", "//x/y"] {
        assert!(raw(&stand, target, "Host: shop.example\r\n").is_from_site(), "{target}");
    }
}

#[test]
fn fields_that_name_another_target_do_not_reach_the_site() {
    let fields = [
        "X-Original-URL",
        "X-Original-URI",
        "X-Original-Path",
        "X-Original-Host",
        "X-Rewrite-URL",
        "X-Rewrite-Uri",
        "X_Original_URL",
        "x_rewrite-url",
        "X-Override-URL",
        "X-Forwarded-Uri",
        "X-Forwarded-Path",
        "X-Forwarded-Prefix",
        "X-Envoy-Original-Path",
        "X-HTTP-Host-Override",
        "X-Host",
    ];
    for policy in ["replace", "append", "remove"] {
        let stand = Stand::configured(&format!("forwarded_headers = \"{policy}\"\n{CONFIG}"));
        let mut request = Request::new("GET", "/free").header("Host", "shop.example").header("X-Kept", "yes");
        for field in fields {
            request = request.header(field, "/checkout");
        }
        assert!(stand.server.visitor().send(&request).expect("an answer").is_from_site());
        let seen = stand.site.last_seen("/free");
        assert_eq!(seen.header("X-Kept"), Some("yes"));
        for field in fields {
            // A proxy that is trusted may say which prefix it has taken off.
            let may_pass = policy == "append" && field == "X-Forwarded-Prefix";
            assert_eq!(seen.header(field).is_some(), may_pass, "{field} with {policy}");
        }
    }
}
