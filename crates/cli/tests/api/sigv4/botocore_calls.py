"""Makes calls signed by botocore's SigV4Auth and sent by botocore's own HTTP session.

Reads {base_url, region, access_key_id, secret_access_key, session_token, calls: [{method, path, query, body}]} and prints
[{status, body}].
"""

import json
import sys

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session

given = json.load(sys.stdin)
credentials = Credentials(given["access_key_id"], given["secret_access_key"], given.get("session_token"))
session = URLLib3Session(timeout=20)
answers = []
for call in given["calls"]:
    body = call.get("body")
    request = AWSRequest(
        method=call["method"],
        url=given["base_url"] + call["path"],
        params=call.get("query"),
        data=json.dumps(body) if body else None,
        headers={"Content-Type": "application/json"},
    )
    SigV4Auth(credentials, "execute-api", given["region"]).add_auth(request)
    answer = session.send(request.prepare())
    answers.append({"status": answer.status_code, "body": answer.text})
json.dump(answers, sys.stdout)
