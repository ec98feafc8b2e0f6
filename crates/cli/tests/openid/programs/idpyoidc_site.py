"""A site that lets nobody in without logging in, with idpyoidc."""

import json
import os
import secrets
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from idpyoidc.client.rp_handler import RPHandler

ISSUER, SITE, PORT = os.environ["ISSUER"], os.environ["URL"], int(os.environ["PORT"])
AUTHENTICATION, PKCE = os.environ["AUTHENTICATION"], os.environ["PKCE"]
method = {"basic": "client_secret_basic", "post": "client_secret_post"}[AUTHENTICATION]

client = {
    "issuer": ISSUER,
    "client_type": "oidc",
    "client_id": os.environ["CLIENT_ID"],
    "client_secret": os.environ["CLIENT_SECRET"],
    "redirect_uris": [f"{SITE}/callback"],
    "scopes_supported": ["openid"],
    "preference": {"response_types_supported": ["code"], "scopes_supported": ["openid"]},
    "client_authn_methods": [method],
    "token_endpoint_auth_methods_supported": [method],
    "id_token_signed_response_alg": os.environ["ALGORITHM"],
    "allow": {"http_links": True},
}
if PKCE == "S256":
    client["add_ons"] = {
        "pkce": {
            "function": "idpyoidc.client.oauth2.add_on.pkce.add_support",
            "kwargs": {"code_challenge_length": 64, "code_challenge_method": "S256"},
        }
    }
handler = RPHandler(base_url=SITE, client_configs={"provider": client}, httpc_params={"timeout": 20})
sessions = {}


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        address = urlsplit(self.path)
        try:
            if address.path == "/":
                self.page()
            elif address.path == "/callback":
                self.callback(dict(parse_qsl(address.query)))
            else:
                self.say(404, {"error": "not found"})
        except Exception as error:
            self.say(403, {"error": repr(error)})

    def session(self):
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("site")
        return sessions.setdefault(cookie.value, {}) if cookie else None

    def page(self):
        mine = self.session()
        if mine and "page" in mine:
            return self.say(200, mine["page"])
        name = secrets.token_urlsafe()
        address = handler.begin("provider")
        sessions[name] = {"state": dict(parse_qsl(urlsplit(address).query))["state"]}
        self.redirect(address, f"site={name}; Path=/; HttpOnly")

    def callback(self, response):
        mine = self.session()
        # Which browser has begun is the site's to know; all else is the library's.
        if not mine or mine["state"] != response.get("state"):
            raise ValueError("the state is not this browser's")
        logged_in = handler.finalize(ISSUER, response)
        if "error" in logged_in:
            raise ValueError(logged_in["error"])
        claims, user_info = logged_in["id_token"].to_dict(), logged_in["userinfo"].to_dict()
        mine["page"] = {"claims": claims, "user_info": user_info}
        self.redirect(f"{SITE}/")

    def redirect(self, address, cookie=None):
        self.send_response(303)
        self.send_header("Location", address)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def say(self, status, body):
        text = json.dumps(body, default=str).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


server = ThreadingHTTPServer(("127.0.0.1", PORT), Site)
print(f"listening at {SITE}", flush=True)
server.serve_forever()
