"""Reads the discovery document of each issuer that it is given with idpyoidc, which knows what the specification demands, and
its keys with cryptojwt; says in a line for each what it has read."""

import json
import os
import urllib.request

from cryptojwt.key_bundle import KeyBundle
from idpyoidc.message.oidc import ProviderConfigurationResponse

for issuer in os.environ["ISSUERS"].split(" "):
    with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration") as answer:
        assert answer.headers.get_content_type() == "application/json", answer.headers
        document = json.load(answer)
    metadata = ProviderConfigurationResponse(**document)
    metadata.verify(allow_http=True, iss=issuer)
    assert metadata["issuer"] == issuer, document
    with urllib.request.urlopen(metadata["jwks_uri"]) as answer:
        keys = KeyBundle(json.load(answer)["keys"])
    # A list with a value twice, or an empty one, says nothing.
    for name, value in document.items():
        if isinstance(value, list):
            assert value and len(value) == len(set(value)), f"{name}: {value}"
    print(json.dumps({"metadata": document, "keys": len(keys.keys())}))
