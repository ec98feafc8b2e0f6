#!/usr/bin/env python3
"""Writes a data directory with the server of an old commit: write.py BINARY DIRECTORY. See README.md."""

import gzip
import http.server
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ADMIN_KEY = "an-admin-key-of-the-old-databases"
YEAR = 31_536_000
# What the gateway protects.
SITE_PATH = "/gate"
CONFIG = """
public_url = "https://wait.example.com"
{origin}
[[room]]
id = "Hall"
validity_period = {year}
enable_queue_position_expiry = false

[[room]]
id = "Gate"
inlet = "max-size"
total_active_users = {capacity}
validity_period = {year}
queue_position_expiry_period = {year}
{paths}
[[room]]
id = "Yard"
state = "{state}"
issuer = "https://yard.example.com"
"""


class Origin(http.server.BaseHTTPRequestHandler):
    """A site that answers everything."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"in")

    def log_message(self, *_):
        pass


class Server:
    """One run of the old server."""

    def __init__(self, binary, data, origin, capacity, state, has_door=False):
        gateway = origin is not None
        text = CONFIG.format(
            origin=f'origin = "{origin}"' if gateway else "",
            year=YEAR,
            capacity=capacity,
            state=state,
            paths=f'paths = ["/gate"]\nsession_duration = 86400\nsession_max = {YEAR}' if gateway else "",
        )
        if has_door:
            # Programs may join, although visitors come in by cookie.
            text = text.replace('paths = ["/gate"]', 'paths = ["/gate"]\njoin = "open"')
        self.config = text
        self.directory = tempfile.TemporaryDirectory()
        config = pathlib.Path(self.directory.name, "anteroom.toml")
        config.write_text(text)
        environment = {
            "ANTEROOM_ADMIN_KEY": ADMIN_KEY,
            "ANTEROOM_STORE_URL": f"file:{data}",
            "ANTEROOM_PUBLIC_ADDR": "127.0.0.1:0",
            "ANTEROOM_PRIVATE_ADDR": "127.0.0.1:0",
        }
        command = [binary, "serve", "--config", str(config)]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        found = {}
        while len(found) < 2:
            line = self.process.stdout.readline()
            if match := re.match(r"(public|private) listening on (\S+)", line):
                found[match[1]] = match[2]
            elif not line:
                raise SystemExit("the server did not start")
        self.public, self.private = found["public"], found["private"]

    def call(self, base, method, path, body=None, headers=None):
        """Status, body and header fields of a response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"} if base == self.private else dict(headers or {})
        if body is not None:
            headers["Content-Type"] = "application/json"
        if base == self.public and path != SITE_PATH:
            # Before a site, the API has a prefix.
            path = "/.anteroom" + path
        request = urllib.request.Request(base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, response.read().decode(), response.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def done(self, base, method, path, body=None):
        """The JSON of a call that must succeed."""
        status, text, _ = self.call(base, method, path, body)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {text}")
        return json.loads(text) if text else None

    def join(self, room):
        return self.done(self.public, "POST", "/assign_queue_num", {"event_id": room})["api_request_id"]

    def advance(self, room, by):
        self.done(self.private, "POST", "/increment_serving_counter", {"event_id": room, "increment_by": by})

    def claim(self, room, request_id):
        body = {"event_id": room, "request_id": request_id}
        return self.done(self.public, "POST", "/generate_token", body)["access_token"]

    def close(self, room, request_id, status):
        body = {"event_id": room, "request_id": request_id, "status": status}
        self.done(self.private, "POST", "/update_session", body)

    def has(self, method, path, body=None):
        """Whether this version has a call of the private listener."""
        return self.call(self.private, method, path, body)[0] not in (404, 405)

    def figures(self, room):
        query = f"?event_id={room}"
        return {
            "serving": self.done(self.public, "GET", "/serving_num" + query)["serving_counter"],
            "waiting": self.done(self.public, "GET", "/waiting_num" + query)["waiting_num"],
            "active": self.done(self.private, "GET", "/num_active_tokens" + query)["active_tokens"],
        }

    def places(self, room, request_ids):
        query = f"/queue_num?event_id={room}&request_id="
        return {
            request_id: self.done(self.public, "GET", query + request_id)["queue_number"]
            for request_id in request_ids
        }

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait() != 0:
            raise SystemExit("the server did not end as it should")


def write_hall(server):
    """Eight places, five offers: one visit open, one completed, one abandoned, two offers unclaimed."""
    ids = [server.join("Hall") for _ in range(8)]
    server.advance("Hall", 5)
    passes = {request_id: server.claim("Hall", request_id) for request_id in ids[:3]}
    server.close("Hall", ids[1], 1)
    server.close("Hall", ids[2], -1)
    return ids, passes


def write_yard(server):
    """A line that was reset, with one visitor in the new one; the old line's tickets are worth nothing."""
    old = [server.join("Yard") for _ in range(2)]
    server.done(server.private, "POST", "/reset_initial_state", {"event_id": "Yard"})
    return old, [server.join("Yard")]


def visit(server):
    """A visit by cookie through the gateway, whose cookie has come back; the cookie."""
    cookie = ""
    for _ in range(3):
        headers = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        if cookie:
            headers["Cookie"] = cookie
        _, body, answered = server.call(server.public, "GET", SITE_PATH, headers=headers)
        for value in answered.get_all("Set-Cookie") or []:
            cookie = value.split(";")[0]
    if body != "in":
        raise SystemExit(f"the gateway did not let a visitor in: {body}")
    return cookie


def main():
    binary, directory = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(tempfile.mkdtemp())
    probe = Server(binary, tempfile.mkdtemp(), None, 2, "open")
    has_keys, has_gateway = probe.has("GET", "/keys"), probe.has("GET", "/openapi.json")
    schema = probe.call(probe.private, "GET", "/openapi.json")[1]
    probe.stop()
    has_gateway = has_gateway and "session_duration" in schema
    has_door = "visits_per_prefix_share" in schema
    origin = None
    if has_gateway:
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{site.server_port}"

    server = Server(binary, data, origin, 2, "open", has_door)
    hall, passes = write_hall(server)
    gate = [server.join("Gate") for _ in range(5)]
    passes[gate[0]] = server.claim("Gate", gate[0])
    yard_old, yard = write_yard(server)
    written = {"places": {}, "figures": {}, "passes": passes}
    if has_keys:
        server.done(server.private, "PUT", "/rooms/Late", {"settings": {"validity_period": 77}})
        late = [server.join("Late") for _ in range(3)]
        server.done(server.public, "POST", "/leave", {"room": "Late", "ticket": late[1]})
        written["places"]["Late"] = server.places("Late", [late[0], late[2]])
        server.done(server.private, "PUT", "/rooms/Gone", {"settings": {}})
        server.done(server.private, "DELETE", "/rooms/Gone")
        key = server.done(server.private, "POST", "/keys", {"name": "viewer", "role": "viewer"})
        written["viewer_key"] = key["key"]
    server.stop()

    # The file is edited: a capacity grows by two, and a room is paused.
    server = Server(binary, data, origin, 4, "paused", has_door)
    if has_gateway:
        # Everybody who was offered a place comes in, the last one by cookie; then one more visitor does.
        for request_id in gate[1:4]:
            passes[request_id] = server.claim("Gate", request_id)
        for request_id in gate[1:4]:
            server.close("Gate", request_id, 1)
        passes[gate[4]] = server.claim("Gate", gate[4])
        written["cookie"] = visit(server)
    moved_status, moved_text, _ = server.call(server.public, "POST", "/move", {"room": "Hall", "ticket": hall[5]})
    if moved_status == 200:
        written["moved_from"] = hall[5]
        hall[5] = json.loads(moved_text)["request_id"]
    for room, request_ids in (("Hall", hall), ("Gate", gate), ("Yard", yard)):
        written["places"][room] = server.places(room, request_ids)
    query = "/queue_num?event_id=Yard&request_id="
    written["of_a_line_before"] = {
        request_id: server.call(server.public, "GET", query + request_id)[0] for request_id in yard_old
    }
    for room in written["places"]:
        written["figures"][room] = server.figures(room)
    if has_keys:
        rooms = server.done(server.private, "GET", "/rooms")
        written["rooms"] = rooms["rooms"] if isinstance(rooms, dict) else rooms
        written["audit"] = server.done(server.private, "GET", "/audit?limit=100")
    server.stop()
    written["written_at_milliseconds"] = time.time_ns() // 1_000_000

    for file in sorted(data.iterdir()):
        print(file.name, file.stat().st_size, file=sys.stderr)
        content = file.read_bytes()
        if file.name.endswith(".redb") or len(content) > 10_000:
            (directory / f"{file.name}.gz").write_bytes(gzip.compress(content, 9, mtime=0))
        else:
            (directory / file.name).write_bytes(content)
    (directory / "anteroom.toml").write_text(server.config)
    (directory / "written.json").write_text(json.dumps(written, indent=1) + "\n")


main()
