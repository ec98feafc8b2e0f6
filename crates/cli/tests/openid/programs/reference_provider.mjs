// npm oidc-provider with a line of its own: one visitor at a time is logged in, the others wait at its address.
// The clients' tests run against it too, so that a fault of the tests is not taken for one of Anteroom, nor hidden by one.
import http from 'node:http'
import { Provider } from 'oidc-provider'

const { port, clients } = JSON.parse(process.env.CONFIGURATION)
const issuer = `http://127.0.0.1:${port}`

let last = 0
let inside = null
const waiting = []

const number = (subject) => Number(subject.slice('visitor-'.length))

const provider = new Provider(issuer, {
  clients,
  claims: { openid: ['sub', 'queue_position'] },
  // What the scope stands for is in the ID token too, as it is in ours.
  conformIdTokenClaims: false,
  cookies: { keys: ['of this process'] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  pkce: { required: (_, client) => client.clientAuthMethod === 'none' },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, queue_position: number(id) }) }),
  // Nobody is asked for consent.
  async loadExistingGrant(ctx) {
    const grant = new ctx.oidc.provider.Grant({
      accountId: ctx.oidc.session.accountId,
      clientId: ctx.oidc.client.clientId,
    })
    grant.addOIDCScope('openid')
    await grant.save()
    return grant
  },
})

/** The visitor's place, by a cookie; a new one at the end of the line. */
function place(request, response) {
  const known = /(?:^|; )place=(\d+)/.exec(request.headers.cookie ?? '')
  if (known) return Number(known[1])
  last += 1
  waiting.push(last)
  response.setHeader('Set-Cookie', `place=${last}; Path=/; HttpOnly`)
  return last
}

async function interaction(request, response) {
  const mine = place(request, response)
  if (inside === null && waiting[0] === mine) inside = waiting.shift()
  if (inside === mine) {
    return provider.interactionFinished(request, response, { login: { accountId: `visitor-${mine}` } })
  }
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.setHeader('Retry-After', '1')
  response.end(`<!doctype html><html lang="en" data-situation="waiting"><title>Waiting</title>
    <meta http-equiv="refresh" content="1"><p id="ahead" data-value="1">1</p>`)
}

http.createServer(async (request, response) => {
  try {
    if (request.url.startsWith('/interaction/')) await interaction(request, response)
    else if (request.method === 'POST' && request.url.startsWith('/end/')) {
      const ended = number(request.url.slice('/end/'.length))
      response.statusCode = inside === ended ? 200 : 404
      if (inside === ended) inside = null
      response.end()
    } else provider.callback()(request, response)
  } catch (error) {
    response.statusCode = 500
    response.end(String(error?.stack ?? error))
  }
}).listen(port, '127.0.0.1', () => console.log(`listening at ${issuer}`))
