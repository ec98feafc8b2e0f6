// Makes calls signed by npm's aws4fetch, as the control panel of the AWS waiting room does.
// Reads {base_url, region, access_key_id, secret_access_key, session_token, calls: [{method, path, query, body, headers, aws}]}
// and prints [{status, body}]. The first argument is a node_modules directory that holds aws4fetch.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { webcrypto } from 'node:crypto';

const require = createRequire(import.meta.url);
globalThis.crypto ??= webcrypto;
const { AwsClient } = require(`${process.argv[2]}/aws4fetch`);

const given = JSON.parse(readFileSync(0, 'utf8'));
const client = new AwsClient({
  accessKeyId: given.access_key_id,
  secretAccessKey: given.secret_access_key,
  sessionToken: given.session_token ?? undefined,
  service: 'execute-api',
  region: given.region,
  retries: 0,
});
const answers = [];
for (const { method, path, query, body, headers, aws } of given.calls) {
  const target = new URL(given.base_url + path);
  for (const [name, value] of Object.entries(query ?? {})) target.searchParams.set(name, value);
  const text = body ? JSON.stringify(body) : undefined;
  const answer = await client.fetch(target, { method, body: text, headers, aws });
  answers.push({ status: answer.status, body: await answer.text() });
}
process.stdout.write(JSON.stringify(answers));
