"""Makes calls signed by PyPI's aws-requests-auth, as the inlets and the OpenID adapter of the AWS waiting room do.

Reads {base_url, region, access_key_id, secret_access_key, session_token, calls: [{method, path, query, body}]} and prints
[{status, body}].
"""

import json
import sys
from urllib.parse import urlparse

import requests
from aws_requests_auth.aws_auth import AWSRequestsAuth

given = json.load(sys.stdin)
auth = AWSRequestsAuth(
    aws_access_key=given["access_key_id"],
    aws_secret_access_key=given["secret_access_key"],
    aws_host=urlparse(given["base_url"]).netloc,
    aws_region=given["region"],
    aws_service="execute-api",
    aws_token=given.get("session_token"),
)
answers = []
for call in given["calls"]:
    answer = requests.request(
        call["method"],
        given["base_url"] + call["path"],
        params=call.get("query"),
        json=call.get("body"),
        auth=auth,
        timeout=20,
    )
    answers.append({"status": answer.status_code, "body": answer.text})
json.dump(answers, sys.stdout)
