// A site that lets nobody in without logging in, with npm openid-client.
import http from 'node:http'
import { randomUUID } from 'node:crypto'
import * as openid from 'openid-client'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, AUTHENTICATION, PKCE, URL: SITE, PORT } = process.env
const authentication = {
  basic: () => openid.ClientSecretBasic(CLIENT_SECRET),
  post: () => openid.ClientSecretPost(CLIENT_SECRET),
  none: () => openid.None(),
}[AUTHENTICATION]()
// In clear, because all of it is on loopback.
const options = { execute: [openid.allowInsecureRequests] }
const provider = await openid.discovery(new URL(ISSUER), CLIENT_ID, undefined, authentication, options)

const sessions = new Map()
const redirect_uri = `${SITE}/callback`

function session(request, response) {
  const known = /(?:^|; )site=([\w-]+)/.exec(request.headers.cookie ?? '')?.[1]
  if (sessions.has(known)) return sessions.get(known)
  const id = randomUUID()
  sessions.set(id, {})
  response.setHeader('Set-Cookie', `site=${id}; Path=/; HttpOnly`)
  return sessions.get(id)
}

async function login(mine) {
  mine.state = openid.randomState()
  mine.nonce = openid.randomNonce()
  const parameters = { redirect_uri, scope: 'openid', state: mine.state, nonce: mine.nonce }
  if (PKCE === 'S256') {
    mine.verifier = openid.randomPKCECodeVerifier()
    parameters.code_challenge = await openid.calculatePKCECodeChallenge(mine.verifier)
    parameters.code_challenge_method = 'S256'
  }
  return openid.buildAuthorizationUrl(provider, parameters)
}

async function callback(mine, address) {
  const tokens = await openid.authorizationCodeGrant(provider, address, {
    expectedState: mine.state,
    expectedNonce: mine.nonce,
    pkceCodeVerifier: mine.verifier,
    idTokenExpected: true,
  })
  mine.tokens = tokens
  mine.claims = tokens.claims()
}

const routes = {
  async '/'(mine, _, response) {
    if (!mine.claims) return redirect(response, await login(mine))
    const user_info = await openid.fetchUserInfo(provider, mine.tokens.access_token, mine.claims.sub)
    json(response, { claims: mine.claims, user_info })
  },
  async '/callback'(mine, address, response) {
    await callback(mine, address)
    redirect(response, `${SITE}/`)
  },
  async '/refresh'(mine, _, response) {
    const before = mine.tokens.refresh_token
    mine.tokens = await openid.refreshTokenGrant(provider, before)
    mine.first_used ??= before
    const user_info = await openid.fetchUserInfo(provider, mine.tokens.access_token, mine.claims.sub)
    json(response, { user_info, is_rotated: mine.tokens.refresh_token !== before })
  },
  // What a thief of an old refresh token would do. Not the last one: that may come again at once, from two tabs.
  async '/reuse'(mine, _, response) {
    json(response, await openid.refreshTokenGrant(provider, mine.first_used))
  },
}

function redirect(response, address) {
  response.writeHead(302, { Location: String(address) }).end()
}

function json(response, body, status = 200) {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

http.createServer(async (request, response) => {
  const address = new URL(request.url, SITE)
  const route = routes[address.pathname]
  if (!route) return json(response, { error: 'not found' }, 404)
  try {
    await route(session(request, response), address, response)
  } catch (error) {
    json(response, { error: String(error.cause?.message ?? error), code: error.code }, 403)
  }
}).listen(PORT, '127.0.0.1', () => console.log(`listening at ${SITE}`))
