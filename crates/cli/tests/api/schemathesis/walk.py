"""Visits every answer that needs a story behind it, on both listeners, and has each checked by schemathesis against the document.

At the end every answer that is documented must have been seen, except those that others look after (OTHERS).
"""

import json
import os
import sys
import urllib.parse
import urllib.request
import uuid

import jsonschema_rs
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

# 400 is what schemathesis itself finds everywhere; slow and large bodies, and a server that cannot, have tests of their own.
OTHERS = {"400", "408", "413", "503"}
# A CDN's secret is not configured here; budgets that are used up are for limiter.rs: this machine has none.
PUBLIC_OTHERS = {"403", "429"}
# Needs a server of its own: one without a key from the environment, and one with another secret. Tested with these.
ELSEWHERE = {
    ("revokeKey", "409"),
    ("restore", "409"),
    # Only its receiver disables a destination.
    ("pauseDestination", "409"),
} | {
    # And one without a default room.
    (operation, "404")
    for operation in (
        "openidConfiguration",
        "openidAuthorize",
        "openidAuthorizePosted",
        "openidToken",
        "openidUserInfo",
        "openidUserInfoPosted",
        "openidUserinfo",
        "openidUserinfoPosted",
    )
}

TIMEOUT_SECONDS = 60


class Listener:
    """One listener, as its document describes it."""

    def __init__(self, path, address):
        with open(path, encoding="utf-8") as file:
            self.document = json.load(file)
        self.address = address
        self.schema = schemathesis.openapi.from_dict(self.document)
        self.operations = {
            operation["operationId"]: (path, method.upper(), operation)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
        }
        self.seen = set()

    def call(self, operation, status, body=None, form=None, headers=None, query=None, **path_parameters):
        """Calls an operation, and wants this status and an answer as documented."""
        path, method, _ = self.operations[operation]
        more = {} if body is None else {"body": body, "media_type": "application/json"}
        if form is not None:
            more = {"body": form, "media_type": "application/x-www-form-urlencoded"}
        if isinstance(body, bytes):
            more = {"body": body, "media_type": "application/octet-stream"}
        case = self.schema[path][method].Case(
            path_parameters=path_parameters, headers=headers or {}, query=query or {}, **more
        )
        response = case.call(base_url=self.address, timeout=TIMEOUT_SECONDS)
        assert response.status_code == status, f"{operation}: {response.status_code} {response.text}, not {status}"
        case.validate_response(response, checks=CHECKS)
        self.seen.add((operation, str(status)))
        return response

    def json(self, operation, status=200, **arguments):
        return self.call(operation, status, **arguments).json()

    def unseen(self, others):
        documented = {
            (name, status) for name, (_, _, operation) in self.operations.items() for status in operation["responses"]
        }
        return sorted(
            (name, status)
            for name, status in documented - self.seen - ELSEWHERE
            if status not in others
        )


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def tag(response):
    return response.headers["etag"][0]


def main():
    public = Listener(sys.argv[1], sys.argv[2])
    private = Listener(sys.argv[3], sys.argv[4])
    admin = bearer(os.environ["ANTEROOM_ADMIN_KEY"])
    walk_rooms(private, admin)
    walk_line(public, private, admin)
    walk_aws(public, private, admin)
    walk_capacity(public, private, admin)
    walk_auction(public, private, admin)
    for status in (200, 202):
        walk_pages(public, private, admin, status)
        walk_openid(public, private, admin, status, {})
        walk_openid(public, private, admin, status, {"id": "Sample"})
    walk_checks(public, private, admin)
    walk_stream(public)
    walk_alarms(private, admin)
    walk_clients(private, admin)
    walk_destinations(private, admin)
    walk_access(private, admin)
    walk_server(public, private, admin)
    walk_refusals(private, admin)
    unseen = public.unseen(OTHERS | PUBLIC_OTHERS) + private.unseen(OTHERS)
    assert not unseen, f"documented, but never seen: {unseen}"
    print(f"{len(public.seen) + len(private.seen)} answers are as documented")


def walk_rooms(private, admin):
    only_new = {**admin, "If-None-Match": "*"}
    made = private.call("putRoom", 201, headers=only_new, body={"settings": {"validity_period": 60}}, id="Walk")
    private.call("putRoom", 412, headers=only_new, body={}, id="Walk")
    private.call("putRoom", 200, headers={**admin, "If-Match": tag(made)}, body={"state": "open"}, id="Walk")
    stale = {**admin, "If-Match": tag(made)}
    private.call("changeRoom", 412, headers=stale, body={"state": "paused"}, id="Walk")
    private.call("changeRoom", 200, headers=admin, body={"settings": {"inlet": None}}, id="Walk")
    private.call("changeRoom", 404, headers=admin, body={}, id="Nowhere")
    private.call("showRoom", 200, headers=admin, id="Walk")
    private.call("previewRoom", 200, headers=admin, body={"situation": "turn", "language": "ar"}, id="Walk")
    private.call("previewRoom", 404, headers=admin, body={}, id="Nowhere")
    private.call("setRoomClock", 200, headers=admin, id="Walk")
    private.call("setRoomClock", 404, headers=admin, id="Nowhere")
    private.call("showArrivals", 200, headers=admin, id="Walk")
    private.call("showArrivals", 404, headers=admin, id="Nowhere")
    private.call("showRoom", 404, headers=admin, id="Nowhere")
    rooms = private.json("listRooms", headers=admin)["rooms"]
    assert "Walk" in [room["id"] for room in rooms], rooms
    private.call("deleteRoom", 412, headers=stale, id="Walk")
    private.call("deleteRoom", 204, headers=admin, id="Walk")
    private.call("deleteRoom", 404, headers=admin, id="Walk")


def walk_alarms(private, admin):
    """Own alarms, one that is told of, and one that only a room has heard of; and more than can be kept."""

    def told(status, names):
        alerts = [{"status": status, "labels": {"alertname": name}, "fingerprint": "walk"} for name in names]
        return {"status": status, "alerts": alerts}

    private.call("changeRoom", 200, headers=admin, body={"settings": {"alarms": ["Walk", "Nobody"]}}, id="Sample")
    heard = private.json("notifyOfAlarms", headers=admin, body=told("firing", ["Walk", "two\nlines"]))
    assert heard == {"received": 2, "firing": 1, "resolved": 0, "ignored": 1}, heard
    alarms = {alarm["name"]: alarm for alarm in private.json("listAlarms", headers=admin)["alarms"]}
    assert alarms["Walk"]["state"] == "firing" and alarms["Walk"]["rooms"] == ["Sample"], alarms["Walk"]
    assert alarms["Nobody"]["state"] == "unknown", alarms["Nobody"]
    assert alarms["Anteroom-Public-4xx-Alarm"]["source"] == "own", alarms
    many = [f"Walk {number}" for number in range(1025)]
    private.call("notifyOfAlarms", 409, headers=admin, body=told("firing", many))
    private.call("notifyOfAlarms", 200, headers=admin, body=told("resolved", ["Walk"]))
    private.call("changeRoom", 200, headers=admin, body={"settings": {"alarms": None}}, id="Sample")


def walk_line(public, private, admin):
    """Our own calls: waiting, active, admitted, over; in a room that closes, drains and renews nothing."""

    def advance(by):
        return private.json("incrementServingCounter", headers=admin, body={"event_id": "Sample", "increment_by": by})

    def room(name, **change):
        private.call("changeRoom", 200, headers=admin, body=change, id=name)

    first, second, third = (public.json("join", body={"room": "Sample"}) for _ in range(3))
    assert first["status"] == "waiting", first
    public.call("join", 404, body={"room": "Nowhere"})
    public.call("status", 401)
    public.call("status", 404, headers=bearer(uuid.uuid4()))
    public.call("claim", 401, body={})
    public.call("claim", 404, body={"ticket": str(uuid.uuid4())})
    public.call("leave", 401, body={})
    public.call("leave", 404, body={"ticket": "x.y.z"})
    public.call("move", 401, body={})
    public.call("move", 404, body={"ticket": "x.y.z"})
    on_another_device = public.json("move", body={"ticket": third["ticket"]})
    public.call("move", 410, body={"ticket": third["ticket"]})
    public.call("status", 410, headers=bearer(third["ticket"]))
    third = on_another_device
    public.call("claim", 409, headers=bearer(first["ticket"]))
    status = public.json("status", headers=bearer(first["request_id"]), query={"room": "Sample"})
    assert status["status"] == "waiting", status
    private.call("showTicket", 200, headers=admin, id="Sample", request_id=first["request_id"])
    private.call("showTicket", 404, headers=admin, id="Sample", request_id=str(uuid.uuid4()))

    advance(3)
    status = public.json("status", headers=bearer(first["ticket"]))
    assert status["status"] == "active", status
    passed = public.json("claim", body={"ticket": first["ticket"]})
    status = public.json("status", headers=bearer(first["ticket"]))
    assert status["status"] == "admitted", status
    public.call("move", 409, body={"ticket": first["ticket"]})
    shown = private.json("showTicket", headers=admin, id="Sample", request_id=first["request_id"])
    assert shown["session"]["status"] == "active", shown
    refresh = {"refresh_token": passed["refresh_token"]}
    public.call("refresh", 200, body=refresh)
    public.call("refresh", 404, body={"refresh_token": "x.y.z"})
    room("Sample", settings={"disable_session_renewal": True})
    public.call("refresh", 409, body=refresh)
    room("Sample", settings={"disable_session_renewal": None})
    public.call("leave", 200, body={"ticket": first["ticket"]})
    public.call("leave", 410, body={"ticket": first["ticket"]})
    public.call("refresh", 410, body=refresh)
    public.call("claim", 410, headers=bearer(first["ticket"]))
    public.call("leave", 200, headers=bearer(second["ticket"]))
    status = public.json("status", headers=bearer(second["ticket"]))
    assert status["status"] == "expired", status

    room("Sample", state="draining")
    public.call("join", 409, body={"room": "Sample"})
    public.call("assignQueueNum", 409, body={"event_id": "Sample"})
    room("Sample", state="closed")
    status = public.json("status", headers=bearer(third["ticket"]))
    assert status["status"] == "closed", status
    public.call("claim", 410, headers=bearer(third["ticket"]))
    room("Sample", state="open")

    # Served at once; and a repeated join whose visit is over in the meantime.
    key = {"Idempotency-Key": str(uuid.uuid4())}
    admitted = public.json("join", headers=key, body={"room": "Small"})
    assert admitted["status"] == "admitted" and admitted["access_token"], admitted
    assert public.json("join", headers=key, body={"room": "Small"})["request_id"] == admitted["request_id"]
    public.call("leave", 200, headers=bearer(admitted["ticket"]))
    public.call("join", 410, headers=key, body={"room": "Small"})

    board = public.call("board", 200, id="Sample")
    public.call("board", 304, headers={"If-None-Match": tag(board)}, id="Sample")
    public.call("board", 404, id="Nowhere")


def walk_aws(public, private, admin):
    event = {"event_id": "Sample"}
    ticket = lambda name: {"event_id": "Sample", "request_id": name}
    name = public.json("assignQueueNum", body=event)["api_request_id"]
    public.call("queueNum", 200, query=ticket(name))
    for figure in ("servingNum", "waitingNum"):
        answer = public.call(figure, 200, query=event)
        public.call(figure, 304, query=event, headers={"If-None-Match": tag(answer)})
    nobody = ticket(str(uuid.uuid4()))
    public.call("queuePosExpiry", 202, query=ticket(name))
    public.call("queuePosExpiry", 404, query=nobody)
    public.call("generateToken", 202, body=ticket(name))
    public.call("generateToken", 404, body=nobody)
    private.call("generateTokenPrivate", 202, headers=admin, body=ticket(name))
    private.call("generateTokenPrivate", 404, headers=admin, body=nobody)
    private.call("updateSession", 404, headers=admin, body={**nobody, "status": 1})
    private.call("incrementServingCounter", 200, headers=admin, body={**event, "increment_by": 1})
    public.call("queuePosExpiry", 200, query=ticket(name))
    own = {**ticket(name), "issuer": "https://walk.example.com", "validity_period": 60}
    private.call("generateTokenPrivate", 200, headers=admin, body=own)
    public.call("generateToken", 200, body=ticket(name))
    private.call("updateSession", 200, headers=admin, body={**ticket(name), "status": 1})
    public.call("generateToken", 410, body=ticket(name))
    private.call("generateTokenPrivate", 410, headers=admin, body=ticket(name))
    late = public.json("assignQueueNum", body=event)["api_request_id"]
    private.call("changeRoom", 200, headers=admin, body={"state": "closed"}, id="Sample")
    public.call("queuePosExpiry", 410, query=ticket(late))
    private.call("changeRoom", 200, headers=admin, body={"state": "open"}, id="Sample")
    public.call("publicKey", 200, query=event)
    public.call("publicKey", 404, query={"event_id": "Nowhere"})
    public.call("jwks", 200)
    private.call("numActiveTokens", 200, headers=admin, query=event)
    private.call("numActiveTokens", 404, headers=admin, query={"event_id": "Nowhere"})
    private.call("expiredTokens", 200, headers=admin, query=event)
    private.call("resetInitialState", 200, headers=admin, body={"event_id": "Reset"})


def walk_capacity(public, private, admin):
    """What the protected site says about itself, in a room that goes by it."""
    settings = {"inlet": "adaptive", "total_active_users": 50, "adaptive_floor": 9, "round_seconds": 3600}
    private.call("putRoom", 201, headers=admin, body={"settings": settings}, id="Site")

    def say(status, body, room="Site"):
        return private.call("reportCapacity", status, headers=admin, body=body, id=room)

    private.call("showCapacity", 404, headers=admin, id="Nowhere")
    private.call("showCapacity", 200, headers=admin, id="Site")
    say(404, {"free": 1}, "Nowhere")
    whole = {"reporter": "web-0", "sequence": 2, "free": 9, "entered": 0, "latency_p95_ms": 80.5, "error_rate": 0.01, "in_flight": 3}
    assert say(200, whole).json()["reported"] == "taken"
    assert say(200, {**whole, "sequence": 1}).json()["reported"] == "late"
    admitted = public.json("join", body={"room": "Site"})
    assert admitted["status"] == "admitted", admitted
    ended = say(200, {"exited": "1", "completed": [admitted["request_id"]], "abandoned": ["nobody"]}).json()
    assert ended["completed"] == [admitted["request_id"]] and ended["unknown"] == ["nobody"], ended
    for number in range(1, 64):
        say(200, {"reporter": f"web-{number}", "free": 1})
    say(409, {"reporter": "web-64", "free": 1})
    private.call("showCapacity", 200, headers=admin, id="Site")
    private.call("showRoom", 200, headers=admin, id="Site")
    private.call("forgetReporter", 204, headers=admin, id="Site", reporter="web-0")
    private.call("forgetReporter", 404, headers=admin, id="Site", reporter="web-0")
    private.call("changeRoom", 200, headers=admin, body={"settings": {"discipline": "auction"}}, id="Site")
    public.call("board", 200, id="Site")


def walk_auction(public, private, admin):
    """Immediate admission, a place in line, and everything that a check-in can be told."""
    settings = {"inlet": "max-size", "total_active_users": 1, "discipline": "auction", "round_seconds": 1}
    private.call("putRoom", 201, headers=admin, body={"settings": settings}, id="Auction")
    first = public.json("auction", body={"room": "Auction"})
    assert first["accessToken"] and first["backendUri"] is None, first
    second = public.json("auction", body={"room": "Auction"})
    assert second["queueToken"], second
    told = public.call("auction", 429, body={"queueToken": second["queueToken"]})
    assert told.headers["retry-after"] and "estimated_wait_seconds" in told.json(), told.text
    public.call("auction", 404, body={"room": "Nowhere"})
    public.call("auction", 409, body={"room": "Sample"})
    public.call("auction", 401, body={"room": "Auction"}, headers={"Authorization": "Basic eDp4"})
    public.call("leave", 200, body={"ticket": second["queueToken"]})
    public.call("auction", 410, body={}, headers=bearer(second["queueToken"]))


def walk_checks(public, private, admin):
    """Verdicts for other proxies, and what the site behind them says of a visit."""
    settings = {"inlet": "max-size", "total_active_users": 1, "hosts": ["shop.example.com"], "bypass": ["path:/free"]}
    private.call("putRoom", 201, headers=admin, body={"settings": settings}, id="Checked")

    def asked(path):
        page = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        described = {"X-Original-Method": "GET", "X-Original-URL": path, "X-Forwarded-Method": "GET", "X-Forwarded-Uri": path}
        return {**page, **described, "X-Forwarded-For": "203.0.113.7"}

    for operation, target in (("checkNginx", {}), ("checkForward", {}), ("checkEnvoy", {"target": "free"})):
        public.call(operation, 200, headers=asked("/free"), room="Checked", **target)
    public.call("checkNginx", 401, headers=asked("/cart"), room="Checked")
    for operation, target in (("checkNginxPage", {}), ("checkForward", {}), ("checkEnvoy", {"target": "cart"})):
        public.call(operation, 303, headers=asked("/cart"), room="Checked", **target)
    inside = public.json("join", body={"room": "Small"})
    visit = f"{inside['generation']}-{inside['position']}"
    done = {"command": "complete"}
    private.call("endVisit", 404, headers=admin, body=done, id="Nowhere", visit=visit)
    private.call("endVisit", 200, headers=admin, body=done, id="Small", visit=visit)
    private.call("endVisit", 410, headers=admin, body=done, id="Small", visit=visit)


def walk_pages(public, private, admin, waiting):
    """The calls by which pages go on, by cookie: join, wait, move, enter, leave; and the page for sites elsewhere."""
    room = "Pages"
    settings = {
        "inlet": "max-size",
        "total_active_users": 1,
        "auto_enter": False,
        "queueing_status_code": waiting,
        "return_addresses": ["https://shop.example.com"],
        # A gateway stands before it, on a host that is not this one.
        "hosts": ["shop.example.com"],
        "origins": ["http://127.0.0.1:9"],
    }
    private.call("putRoom", 201, headers=admin, body={"settings": settings}, id=room)
    browser = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    query, nowhere = {"room": room}, {"room": "Nowhere"}

    def cookie(response):
        return {"Cookie": response.headers["set-cookie"][0].split(";")[0]}

    def join(status):
        arrived = cookie(public.call("lineJoin", waiting, query=query))
        return cookie(public.call("lineJoin", status, query=query, headers=arrived))

    def link(holder):
        url = public.json("lineMove", headers=holder, query=query)["url"]
        return {**query, "code": url.partition("code=")[2].partition("&")[0]}

    for operation in ("lineStatus", "lineJoin", "lineEnter", "lineLeave", "lineMove", "lineTakeAsk", "lineTake"):
        public.call(operation, 404, query=nowhere)
    for operation in ("waitPage", "waitEnter"):
        public.call(operation, 404, room="Nowhere")
    public.call("pageScript", 200)
    public.call("lineStatus", 200, query=query)
    public.call("lineEnter", 409, query=query)
    public.call("lineMove", 409, query=query)
    public.call("waitPage", 200, room=room)
    public.call("waitEnter", 303, room=room)
    # Programs take no place, and browsers when their cookie has come back.
    public.call("join", 403, body=query)
    public.call("assignQueueNum", 403, body={"event_id": room})
    public.call("generateToken", 403, body={"event_id": room, "request_id": str(uuid.uuid4())})
    first, old = join(200), join(waiting)
    public.call("lineJoin", 303, query=query, headers={**browser, **old})
    public.call("lineStatus", waiting, query=query, headers=old)
    public.call("lineEnter", waiting, query=query, headers=old)
    public.call("lineEnter", 303, query=query, headers={**browser, **old})
    public.call("waitPage", waiting, headers=old, room=room)
    public.call("waitPage", waiting, headers={**browser, **old}, room=room)
    public.call("waitEnter", waiting, headers=old, room=room)

    taken = link(old)
    public.call("lineTakeAsk", 200, query=taken)
    new = cookie(public.call("lineTake", waiting, query=taken))
    public.call("lineTakeAsk", 303, query=taken, headers=new)
    public.call("lineTake", 303, query=taken, headers={**browser, **new})
    for operation in ("lineTakeAsk", "lineTake"):
        public.call(operation, 410, query=taken)
    for operation in ("lineStatus", "lineEnter", "lineMove", "lineLeave"):
        public.call(operation, 410, query=query, headers=old)
    for operation in ("waitPage", "waitEnter"):
        public.call(operation, 410, headers=old, room=room)

    late = link(new)
    public.call("lineLeave", 200, query=query, headers=first)
    assert public.json("lineEnter", 200, query=query, headers=new)["status"] == "admitted"
    public.call("lineTake", 409, query=late)
    private.call("changeRoom", 200, headers=admin, body={"settings": {"auto_enter": True}}, id=room)
    public.call("waitPage", 303, headers={**browser, **new}, room=room)
    private.call("deleteRoom", 204, headers=admin, id=room)


def walk_openid(public, private, admin, waiting, path):
    """A login of the default room, or of a named one: waits, moves, comes in, and is tokens."""
    of_room = "OfRoom" if path else ""
    home, shop = "https://shop.example.com/callback", {"headers": admin, "id": "Sample"}
    private.call("resetInitialState", 200, headers=admin, body={"event_id": "Sample"})
    private.call("changeRoom", 200, body={"settings": {"queueing_status_code": waiting}}, **shop)
    login = {"id": "login", "redirect_addresses": [home], "login_address": "https://shop.example.com/login"}
    secret = private.json("createClient", 201, body=login, **shop)["secret"]
    private.call("createClient", 201, body={"id": "plain", "redirect_addresses": [home], "public": True}, **shop)
    browser = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    query = {"client_id": "login", "redirect_uri": home, "response_type": "code", "scope": "openid", "state": "s"}

    def cookie(response):
        return {"Cookie": response.headers["set-cookie"][0].split(";")[0]}

    def wait():
        arrived = cookie(public.call(f"openidAuthorize{of_room}", waiting, query=query, headers=browser, **path))
        both = {**browser, **arrived}
        return cookie(public.call(f"openidAuthorize{of_room}", waiting, query=query, headers=both, **path))

    public.call(f"openidConfiguration{of_room}", 200, **path)
    public.call(f"openidAuthorize{of_room}Posted", 303, form=query, **path)
    held = wait()
    public.call(f"openidAuthorize{of_room}", waiting, query=query, headers=held, **path)
    if path:
        nowhere = {"id": "Nowhere"}
        public.call("openidKeys", 200, **path)
        for operation in ("openidConfigurationOfRoom", "openidKeys", "openidUserInfoOfRoom", "openidUserinfoOfRoom"):
            public.call(operation, 404, **nowhere)
        for operation in ("openidAuthorizeOfRoom", "openidEnter", "openidJoin", "openidLeave", "openidMoved"):
            public.call(operation, 404, query=query, **nowhere)
        public.call("openidAuthorizeOfRoomPosted", 404, form=query, **nowhere)
        public.call("openidTokenOfRoom", 404, form={"grant_type": "authorization_code"}, **nowhere)
        for operation in ("openidUserInfoOfRoomPosted", "openidUserinfoOfRoomPosted"):
            public.call(operation, 404, form={"access_token": "x"}, **nowhere)
        public.call("openidMoved", 303, query={"client_id": "login"}, **path)
        public.call("openidMoved", 200, query={"client_id": "plain"}, **path)
        public.call("openidEnter", waiting, query=query, headers=held, **path)
        public.call("openidEnter", 303, query=query, headers={**browser, **held}, **path)
        public.call("openidJoin", 303, query=query, headers=held, **path)
    url = public.json("lineMove", headers=held, query={"room": "Sample"})["url"]
    taken = {"room": "Sample", "code": url.partition("code=")[2].partition("&")[0]}
    new = cookie(public.call("lineTake", waiting, query=taken))
    public.call(f"openidAuthorize{of_room}", 410, query=query, headers=held, **path)
    if path:
        for operation in ("openidEnter", "openidLeave"):
            public.call(operation, 410, query=query, headers=held, **path)
        public.call("openidLeave", 303, query=query, headers=wait(), **path)
    body = {"event_id": "Sample", "increment_by": 1000}
    private.call("incrementServingCounter", 200, headers=admin, body=body)
    back = public.call(f"openidAuthorize{of_room}", 303, query=query, headers={**browser, **new}, **path)
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(back.headers["location"][0]).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": home}
    public.call(f"openidToken{of_room}", 401, form={**form, "client_id": "nobody"}, **path)
    named = {"client_id": "login", "client_secret": secret}
    access = public.json(f"openidToken{of_room}", 200, form={**form, **named}, **path)["access_token"]
    for spelling in ("UserInfo", "Userinfo"):
        public.call(f"openid{spelling}{of_room}", 200, headers=bearer(access), **path)
        public.call(f"openid{spelling}{of_room}", 401, **path)
        public.call(f"openid{spelling}{of_room}Posted", 200, form={"access_token": access}, **path)
        public.call(f"openid{spelling}{of_room}Posted", 401, form={"access_token": "x"}, **path)
    for client in ("login", "plain"):
        private.call("deleteClient", 204, client=client, **shop)
    private.call("changeRoom", 200, body={"settings": {"queueing_status_code": None}}, **shop)


def walk_stream(public):
    """One event of the stream, and the refusals of those who get none."""
    public.call("watch", 404, query={"room": "Nowhere"})
    public.call("watch", 406, query={"room": "Sample"}, headers={"Accept": "text/html"})
    with urllib.request.urlopen(f"{public.address}/watch?room=Sample", timeout=TIMEOUT_SECONDS) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"] == "text/event-stream", stream.headers
        event = {}
        while "data" not in event:
            field, _, value = stream.readline().decode().rstrip("\n").partition(": ")
            event[field] = value
    assert event["event"] == "board" and event["id"], event
    schema = {"$ref": "#/components/schemas/Board", "components": public.document["components"]}
    jsonschema_rs.validate(schema, json.loads(event["data"]))
    public.seen.add(("watch", "200"))


def walk_access(private, admin):
    wanted = {"name": "walker", "role": "viewer", "expires_in_seconds": 60}
    private.call("createKey", 201, headers=admin, body=wanted)
    private.call("createKey", 409, headers=admin, body=wanted)
    private.call("createKey", 201, headers=admin, body={"name": "pair", "role": "origin", "kind": "sigv4"})
    private.call("listKeys", 200, headers=admin)
    private.call("revokeKey", 204, headers=admin, name="walker")
    private.call("revokeKey", 404, headers=admin, name="walker")
    private.call("listSigningKeys", 200, headers=admin)
    # As often as it goes: there is a limit to how many keys verifiers are made to keep.
    for _ in range(15):
        private.call("rotateSigningKey", 201, headers=admin)
    private.call("rotateSigningKey", 409, headers=admin)
    page = private.json("audit", headers=admin, query={"limit": 2})
    assert len(page["records"]) == 2 and page["next_before"], page
    private.call("audit", 200, headers=admin, query={"limit": 2, "before": page["next_before"]})


def walk_clients(private, admin):
    """A client that is made, rotated and deleted, and one of the configuration file."""
    wanted = {"id": "shop", "name": "The shop", "redirect_addresses": ["https://shop.example.com/callback"]}
    shop = {"headers": admin, "id": "Sample", "client": "shop"}
    private.call("createClient", 201, headers=admin, body=wanted, id="Sample")
    private.call("createClient", 409, headers=admin, body=wanted, id="Sample")
    private.call("createClient", 404, headers=admin, body=wanted, id="Nowhere")
    app = {"id": "app", "redirect_addresses": ["com.example.app:/callback"], "public": True, "id_token_seconds": 60}
    private.call("createClient", 201, headers=admin, body=app, id="Sample")
    private.call("rotateClientSecret", 409, headers=admin, body={}, id="Sample", client="app")
    private.call("revokePreviousSecret", 409, **shop)
    private.call("rotateClientSecret", 201, body={"previous_expires_in_seconds": 60}, **shop)
    private.call("showClient", 200, **shop)
    private.call("listClients", 200, headers=admin, id="Sample")
    private.call("listClients", 404, headers=admin, id="Nowhere")
    private.call("revokePreviousSecret", 204, **shop)
    private.call("deleteClient", 204, **shop)
    for operation in ("showClient", "deleteClient", "revokePreviousSecret"):
        private.call(operation, 404, **shop)
    private.call("rotateClientSecret", 404, body={}, **shop)
    private.call("deleteClient", 409, headers=admin, id="Sample", client="of-the-file")


def walk_destinations(private, admin):
    """Destinations of events that are made, run and deleted, and one of the configuration file."""
    wanted = {"name": "shop", "kind": "webhook", "url": "https://shop.example.com/hooks", "types": ["room.*"]}
    shop = {"headers": admin, "name": "shop"}
    private.call("createDestination", 201, headers=admin, body=wanted)
    private.call("createDestination", 409, headers=admin, body=wanted)
    pair = {"name": "pair", "kind": "webhook", "url": "https://shop.example.com/", "algorithm": "ed25519"}
    private.call("createDestination", 201, headers=admin, body=pair)
    request = urllib.request.Request(f"{private.address}/events?follow=false", headers=admin)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"] == "text/event-stream", stream.headers
        assert b"\nevent: room.created\n" in stream.read()
    private.seen.add(("streamEvents", "200"))
    private.call("listDestinations", 200, headers=admin)
    private.call("showDestination", 200, **shop)
    private.call("changeDestination", 200, body={"batch_max": 100, "rooms": ["Sample"]}, **shop)
    private.call("pauseDestination", 200, **shop)
    private.call("resumeDestination", 200, **shop)
    private.call("testDestination", 200, **shop)
    private.call("replayDestination", 202, body={"after": 0}, **shop)
    private.call("revokePreviousDestinationSecret", 409, **shop)
    private.call("rotateDestinationSecret", 201, body={"previous_expires_in_seconds": 60}, **shop)
    private.call("revokePreviousDestinationSecret", 204, **shop)
    private.call("listDeadLetters", 200, query={"limit": 1}, **shop)
    private.call("replayDeadLetters", 202, **shop)
    private.call("dropDeadLetters", 202, **shop)
    private.call("deleteDestination", 204, **shop)
    without_body = ("show", "delete", "pause", "resume", "test")
    for operation in [f"{verb}Destination" for verb in without_body] + [
        "revokePreviousDestinationSecret",
        "listDeadLetters",
        "replayDeadLetters",
        "dropDeadLetters",
    ]:
        private.call(operation, 404, **shop)
    for operation, body in (("change", {}), ("replay", {"after": 0})):
        private.call(f"{operation}Destination", 404, body=body, **shop)
    private.call("rotateDestinationSecret", 404, body={}, **shop)
    of_the_file = {"headers": admin, "name": "of-the-file"}
    private.call("deleteDestination", 409, **of_the_file)
    private.call("changeDestination", 409, body={"batch_max": 2}, **of_the_file)
    private.call("rotateDestinationSecret", 409, body={}, headers=admin, name="log-of-the-file")


def walk_server(public, private, admin):
    public.call("problems", 200)
    for name in ("live", "ready", "docs"):
        private.call(name, 200)
    private.call("openapi", 200, query={"listener": "public"})
    private.call("metrics", 200, headers=admin)
    backup = private.call("backup", 200, headers=admin)
    private.call("restore", 200, headers=admin, body=backup.content)


def walk_refusals(private, admin):
    """Nobody gets through without a key, nor with one whose role does not allow it."""
    name = "origin"
    origin = private.json("createKey", 201, headers=admin, body={"name": name, "role": name})["key"]
    viewer = private.json("createKey", 201, headers=admin, body={"name": "viewer", "role": "viewer"})["key"]
    for operation, (path, _, described) in private.operations.items():
        if "401" not in described["responses"]:
            continue
        arguments = {part: "x" for part in ("id", "name", "request_id", "reporter", "visit", "client") if "{" + part + "}" in path}
        body = b"" if operation == "restore" else {} if "requestBody" in described else None
        private.call(operation, 401, body=body, **arguments)
        other = viewer if operation in ("updateSession", "notifyOfAlarms", "reportCapacity", "endVisit") else origin
        private.call(operation, 403, body=body, headers=bearer(other), **arguments)


if __name__ == "__main__":
    main()
