// A site that lets nobody in without logging in, with npm express-openid-connect.
const express = require('express')
const { auth } = require('express-openid-connect')

const { ISSUER, CLIENT_ID, CLIENT_SECRET, AUTHENTICATION, ALGORITHM, URL: SITE, PORT } = process.env
const site = express()
site.use(auth({
  issuerBaseURL: ISSUER,
  baseURL: SITE,
  clientID: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  clientAuthMethod: { basic: 'client_secret_basic', post: 'client_secret_post' }[AUTHENTICATION],
  secret: 'seals the cookies of this site and of no other',
  authRequired: true,
  idTokenSigningAlg: ALGORITHM,
  authorizationParams: { response_type: 'code', scope: 'openid' },
}))
site.get('/', async (request, response, next) => {
  try {
    response.json({ claims: request.oidc.idTokenClaims, user_info: await request.oidc.fetchUserInfo() })
  } catch (error) {
    next(error)
  }
})
// Four arguments are how express knows it.
site.use((error, _request, response, _next) => {
  response.status(403).json({ error: `${error.message}; ${error.error_description ?? ''}` })
})
site.listen(PORT, '127.0.0.1', () => console.log(`listening at ${SITE}`))
