// Sends one request signed by npm's aws4fetch; see make.py, which starts it and sets the clock.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { webcrypto } from 'node:crypto';

const require = createRequire(import.meta.url);
globalThis.crypto ??= webcrypto;
const { AwsClient } = require(`${process.argv[2]}/aws4fetch`);

const { key, datetime, url, case: asked } = JSON.parse(readFileSync(0, 'utf8'));
const client = new AwsClient({
  accessKeyId: key.access_key_id,
  secretAccessKey: key.secret_access_key,
  sessionToken: asked.token,
  service: key.service,
  region: key.region,
  retries: 0,
});
const target = new URL(url);
for (const [name, value] of Object.entries(asked.parameters ?? {})) target.searchParams.set(name, value);
const answer = await client.fetch(target, {
  method: asked.method,
  body: asked.body,
  headers: asked.headers,
  aws: { datetime },
});
if (answer.status !== 204) throw new Error(`answered ${answer.status}`);
