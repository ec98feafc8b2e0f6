"""An event bus by moto, which checks signatures, with a queue that gets all its events.

Says {"access_key_id", "secret"} when it is ready, and then, for every line on standard input, one line with all events so far."""

import json
import os
import sys

os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "1000000"
import boto3
import requests
from moto.server import ThreadedMotoServer

port = int(sys.argv[1])
url = f"http://127.0.0.1:{port}"
ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False).start()


def client(service, key_id="setup", secret="setup"):
    return boto3.client(service, endpoint_url=url, region_name="eu-central-1", aws_access_key_id=key_id, aws_secret_access_key=secret)


iam = client("iam")
iam.create_user(UserName="anteroom")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="anteroom", PolicyName="all", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="anteroom")["AccessKey"]
queue = client("sqs").create_queue(QueueName="events")["QueueUrl"]
events = client("events")
events.create_event_bus(Name="rooms")
pattern = json.dumps({"source": [{"exists": True}]})
events.put_rule(Name="all", EventBusName="rooms", EventPattern=pattern)
arn = "arn:aws:sqs:eu-central-1:123456789012:events"
events.put_targets(Rule="all", EventBusName="rooms", Targets=[{"Id": "queue", "Arn": arn}])
requests.post(f"{url}/moto-api/reset-auth", data="0", timeout=10).raise_for_status()
sqs = client("sqs", key["AccessKeyId"], key["SecretAccessKey"])
print(json.dumps({"access_key_id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)

received = []
for _ in sys.stdin:
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            received.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    print(json.dumps(received), flush=True)
