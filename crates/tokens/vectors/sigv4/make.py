"""Writes ../sigv4_signers.json: requests as three signers that are not ours put them on the wire.

    python -m venv VENV && VENV/bin/pip install aws-requests-auth==0.4.3 requests==2.34.2 botocore==1.44.0
    npm install --prefix NODE aws4fetch@1.0.20
    VENV/bin/python make.py NODE/node_modules

Nothing is imitated: each signer sends real requests with the HTTP client it is used with (requests, botocore's session, Node's fetch)
to a listener on loopback, which writes down every byte of the head. Only the clock is set, to NOW. The port is chosen by the system and
is part of what is signed, so another run gives other signatures; each is as good as the one before.
"""

import datetime
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import aws_requests_auth.aws_auth
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.httpsession
import requests

HERE = pathlib.Path(__file__).resolve().parent
NOW = datetime.datetime(2026, 11, 16, 20, 0, 0, tzinfo=datetime.timezone.utc)
UUID = "344500dd-c0fb-8c42-90c8-185a4ddbd81c"
KEY = {
    "access_key_id": "AKVECTORSFORTESTS234",
    "secret_access_key": "vectors/of+a-secret_that=nobody.uses0123",
    "region": "eu-central-1",
    "service": "execute-api",
}
JSON_BODY = json.dumps({"event_id": "Sample", "increment_by": 1, "note": "Grüße"}, ensure_ascii=False)
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE//////////token+with/signs=="

# What the signers are asked to send. With `except_by`, the named signer signs something else than its HTTP client then sends,
# which AWS refuses as well: boto's signer takes the address as it was given, while urllib3 escapes what is not ASCII and writes
# escapes in capitals. (A `;` in a path is lost to both Python clients in the same way, so no case has one.)
CASES = [
    {"name": "GET with a query", "method": "GET", "path": "/num_active_tokens", "query": "event_id=Sample"},
    {"name": "GET with two parameters out of order", "method": "GET", "path": "/a", "query": "request_id=x&event_id=S"},
    {"name": "POST of JSON", "method": "POST", "path": "/increment_serving_counter", "body": JSON_BODY},
    {"name": "POST with an empty body", "method": "POST", "path": "/reset_initial_state", "body": ""},
    {"name": "DELETE", "method": "DELETE", "path": "/rooms/Sample"},
    {"name": "a path with a UUID", "method": "GET", "path": f"/rooms/Sample/tickets/{UUID}"},
    {"name": "a path that ends in a slash", "method": "GET", "path": "/rooms/"},
    {"name": "the root", "method": "GET", "path": "/"},
    {"name": "a path with escapes", "method": "GET", "path": "/rooms/a%20b%2Fc%C3%A9"},
    {"name": "a path with escapes in small letters", "method": "GET", "path": "/rooms/%c3%a9", "except_by": ["botocore"]},
    {"name": "a path with an escaped percent sign", "method": "GET", "path": "/rooms/100%25%20b"},
    {"name": "a path with characters that need escapes", "method": "GET", "path": "/rooms/a b/é/ü:@!$'()*,=+"},
    {"name": "a query with Unicode", "method": "GET", "path": "/a", "query": "event_id=Grüße&q=日本", "except_by": ["botocore"]},
    {"name": "a query with Unicode, escaped", "method": "GET", "path": "/a", "query": "event_id=Gr%C3%BC%C3%9Fe"},
    {"name": "a query with small escapes", "method": "GET", "path": "/a", "query": "q=%e6%97%a5", "except_by": ["botocore"]},
    {"name": "a query with plus and space", "method": "GET", "path": "/a", "query": "a=b+c&d=e%20f&g=h%2Bi"},
    {"name": "repeated names and empty values", "method": "GET", "path": "/a", "query": "b=2&b=1&a=&c&b=10"},
    {"name": "reserved characters in a query", "method": "GET", "path": "/a", "query": "t=12:30/x&u=a%26b%3Dc"},
    {"name": "parameters encoded by the client", "method": "GET", "path": "/a", "parameters": {"b": "x y+z&é~*日", "a": "1"}},
    {"name": "a session token", "method": "POST", "path": "/update_session", "body": JSON_BODY, "token": TOKEN},
    {"name": "a header of its own", "method": "GET", "path": "/a", "headers": {"X-Custom": "two   words"}},
]
# What only one of them can do.
DATED = {"name": "a Date header", "method": "GET", "path": "/a", "headers": {"Date": "replaced by the signer"}}
DECLARED = {"name": "a declared hash", "method": "POST", "path": "/a", "body": "x", "headers": {"X-Amz-Content-SHA256": ""}}


class Recorder:
    """A listener on loopback that keeps each request as it came and answers 204."""

    def __init__(self):
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.base = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as reader:
                self.requests.append(self.read(reader))
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    @staticmethod
    def read(reader):
        method, target, _ = reader.readline().decode("latin-1").split(" ")
        headers = []
        while (line := reader.readline().decode("latin-1").rstrip("\r\n")) != "":
            name, value = line.split(":", 1)
            headers.append([name, value.removeprefix(" ")])
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        body = reader.read(length).decode("utf-8")
        return {"method": method, "target": target, "headers": headers, "body": body}


def url(base, case):
    query = case.get("query", "")
    return base + case["path"] + ("?" + query if query else "")


def body(case):
    return case["body"].encode() if "body" in case else None


def by_aws_requests_auth(base, case):
    class Frozen(datetime.datetime):
        @classmethod
        def utcnow(cls):
            return NOW.replace(tzinfo=None)

    aws_requests_auth.aws_auth.datetime.datetime = Frozen
    auth = aws_requests_auth.aws_auth.AWSRequestsAuth(
        aws_access_key=KEY["access_key_id"],
        aws_secret_access_key=KEY["secret_access_key"],
        aws_host=base.removeprefix("http://"),
        aws_region=KEY["region"],
        aws_service=KEY["service"],
        aws_token=case.get("token"),
    )
    requests.request(
        case["method"],
        url(base, case),
        params=case.get("parameters"),
        data=body(case),
        headers=case.get("headers"),
        auth=auth,
        timeout=10,
    )


def by_botocore(base, case):
    botocore.auth.get_current_datetime = lambda: NOW
    credentials = botocore.credentials.Credentials(KEY["access_key_id"], KEY["secret_access_key"], case.get("token"))
    headers = dict(case.get("headers", {}))
    if "X-Amz-Content-SHA256" in headers:
        headers["X-Amz-Content-SHA256"] = hashlib.sha256(body(case)).hexdigest()
    request = botocore.awsrequest.AWSRequest(
        method=case["method"], url=url(base, case), params=case.get("parameters"), data=body(case), headers=headers
    )
    botocore.auth.SigV4Auth(credentials, KEY["service"], KEY["region"]).add_auth(request)
    botocore.httpsession.URLLib3Session(timeout=10).send(request.prepare())


def by_aws4fetch(base, case):
    script = {"base": base, "key": KEY, "datetime": NOW.strftime("%Y%m%dT%H%M%SZ"), "case": case, "url": url(base, case)}
    command = ["node", str(HERE / "make.mjs"), sys.argv[1]]
    subprocess.run(command, input=json.dumps(script), text=True, check=True, timeout=60)


SIGNERS = [
    ("aws-requests-auth", by_aws_requests_auth, []),
    ("botocore", by_botocore, [DATED, DECLARED]),
    ("aws4fetch", by_aws4fetch, []),
]


def versions():
    from importlib.metadata import version

    package = json.loads((pathlib.Path(sys.argv[1]) / "aws4fetch" / "package.json").read_text())
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    found = {name: version(name) for name in ["aws-requests-auth", "botocore", "requests", "urllib3"]}
    return {**found, "aws4fetch": package["version"], "node": node.removeprefix("v")}


def main():
    recorder = Recorder()
    cases = []
    for signer, send, more in SIGNERS:
        for case in CASES + more:
            if signer in case.get("except_by", []):
                continue
            before = len(recorder.requests)
            send(recorder.base, case)
            assert len(recorder.requests) == before + 1, f"{signer}: {case['name']}"
            cases.append({"signer": signer, "name": case["name"], **recorder.requests[-1]})
    document = {
        "about": "Requests as signers that are not ours sent them; made by sigv4/make.py. Each verifies at the moment `now`.",
        "versions": versions(),
        "now_unix_milliseconds": int(NOW.timestamp()) * 1000,
        **KEY,
        "cases": cases,
    }
    path = HERE.parent / "sigv4_signers.json"
    path.write_text(json.dumps(document, indent=2, ensure_ascii=True) + "\n")
    print(f"{len(cases)} cases written to {os.path.relpath(path)}", file=sys.stderr)


main()
