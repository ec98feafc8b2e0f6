"""Receives webhooks of Anteroom.  pip install standardwebhooks cloudevents  (and cryptography, for a public key)

WEBHOOK_SECRET=whsec_… or WEBHOOK_PUBLIC_KEY=whpk_…   python receive.py 8000
"""

import base64
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

BODY_MAX_BYTES = 512 * 1024
TOLERANCE_SECONDS = 300

handled = set()  # In your site: a table of your database, written in the transaction that handles the event.
lock = Lock()


def verify(headers, body):
    """Raises unless the body was signed by the key of this webhook within the last five minutes."""
    if secret := os.environ.get("WEBHOOK_SECRET"):
        Webhook(secret).verify(body, headers, json_parse=False)
    else:
        verify_by_public_key(os.environ["WEBHOOK_PUBLIC_KEY"], headers, body)


def verify_by_public_key(public_key, headers, body):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    if abs(time.time() - int(headers["webhook-timestamp"])) > TOLERANCE_SECONDS:
        raise WebhookVerificationError("Message timestamp too old or too new")
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for signature in headers["webhook-signature"].split(" "):
        version, _, value = signature.partition(",")
        if version == "v1a":
            try:
                return key.verify(base64.b64decode(value), signed)
            except InvalidSignature:
                pass
    raise WebhookVerificationError("No matching signature found")


def events_of(headers, body):
    """The events in a body: one, or those of a batch."""
    if not headers["content-type"].startswith("application/cloudevents-batch+json"):
        return [from_structured_event(HTTPMessage(headers=headers, body=body))]
    single = {"content-type": "application/cloudevents+json"}
    return [from_structured_event(HTTPMessage(headers=single, body=json.dumps(event).encode())) for event in json.loads(body)]


def handle(event):
    """What your site does with an event. Should be quick: put it into a queue if it is not."""
    attributes = {**event.get_attributes(), "time": event.get_time().isoformat()}
    print(json.dumps({"event": {**attributes, "data": event.get_data()}}), flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = int(headers.get("content-length", 0))
        if length > BODY_MAX_BYTES:
            return self.answer(413)
        body = self.rfile.read(length)
        try:
            verify(headers, body)
        except (WebhookVerificationError, KeyError, ValueError) as error:
            print(json.dumps({"refused": str(error)}), flush=True)
            return self.answer(401)
        with lock:
            for event in events_of(headers, body):
                if (event.get_source(), event.get_id()) not in handled:
                    handle(event)
                    handled.add((event.get_source(), event.get_id()))
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(json.dumps({"listening": server.server_port}), flush=True)
server.serve_forever()
