// Reads the discovery document of each issuer that it is given with npm openid-client, which refuses one that is not of its issuer,
// and its keys with jose; says in a line for each what it has read.
import * as openid from 'openid-client'
import { createLocalJWKSet, importJWK } from 'jose'

const options = { execute: [openid.allowInsecureRequests] }
for (const issuer of process.env.ISSUERS.split(' ')) {
  const provider = await openid.discovery(new URL(issuer), 'shop', undefined, openid.None(), options)
  const metadata = provider.serverMetadata()
  const keys = await (await fetch(metadata.jwks_uri)).json()
  createLocalJWKSet(keys)
  for (const key of keys.keys) await importJWK(key)
  console.log(JSON.stringify({ metadata, keys: keys.keys.length }))
}
