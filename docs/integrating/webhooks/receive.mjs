// Receives webhooks of Anteroom.  npm install standardwebhooks cloudevents
//
// WEBHOOK_SECRET=whsec_…  node receive.mjs 8000

import { createServer } from "node:http";
import { HTTP } from "cloudevents";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

const BODY_MAX_BYTES = 512 * 1024;
const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const handled = new Set(); // In your site: a table of your database, written in the transaction that handles the event.

// What your site does with an event. Should be quick: put it into a queue if it is not.
function handle(event) {
  console.log(JSON.stringify({ event }));
}

async function bodyOf(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > BODY_MAX_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const server = createServer(async (request, response) => {
  const body = await bodyOf(request);
  if (body === null) return response.writeHead(413, { connection: "close" }).end();
  try {
    webhook.verify(body, request.headers, { jsonParse: false });
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log(JSON.stringify({ refused: error.message }));
    return response.writeHead(401).end();
  }
  const events = [HTTP.toEvent({ headers: request.headers, body })].flat();
  for (const event of events) {
    const name = `${event.source} ${event.id}`;
    if (handled.has(name)) continue;
    handle(event);
    handled.add(name);
  }
  response.writeHead(204).end();
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log(JSON.stringify({ listening: server.address().port })));
