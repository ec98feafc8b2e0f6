# A site that lets nobody in without logging in, with omniauth_openid_connect.
require 'json'
require 'securerandom'
require 'rack/session/cookie'
require 'omniauth'
require 'omniauth_openid_connect'

# In clear, because all of it is on loopback.
SWD.url_builder = URI::HTTP
WebFinger.url_builder = URI::HTTP
# The login begins by itself, where a page with a button would post.
OmniAuth.config.allowed_request_methods = %i[get post]
OmniAuth.config.silence_get_warning = true
OmniAuth.config.full_host = ENV.fetch('URL')

issuer = URI(ENV.fetch('ISSUER'))
use Rack::Session::Cookie, key: 'site', secret: SecureRandom.hex(32)
use OmniAuth::Builder do
  provider :openid_connect,
           name: :anteroom,
           issuer: issuer.to_s,
           discovery: true,
           scope: [:openid],
           response_type: :code,
           send_nonce: true,
           client_auth_method: { 'basic' => :basic, 'post' => :body }.fetch(ENV.fetch('AUTHENTICATION')),
           client_options: {
             scheme: issuer.scheme, host: issuer.host, port: issuer.port,
             identifier: ENV.fetch('CLIENT_ID'), secret: ENV.fetch('CLIENT_SECRET'),
             redirect_uri: "#{ENV.fetch('URL')}/auth/anteroom/callback",
           }
end

json = ->(status, body) { [status, { 'Content-Type' => 'application/json' }, [JSON.generate(body)]] }

run lambda { |env|
  request = Rack::Request.new(env)
  case request.path
  when '/'
    page = request.session['page']
    page ? json.call(200, JSON.parse(page)) : [303, { 'Location' => '/auth/anteroom' }, []]
  when '/auth/anteroom/callback'
    auth = env['omniauth.auth']
    claims = JSON::JWT.decode(auth.credentials.id_token, :skip_verification)
    # A cookie has little room.
    request.session['page'] = JSON.generate(claims: claims, user_info: auth.extra.raw_info)
    [303, { 'Location' => '/' }, []]
  when '/auth/failure'
    json.call(403, error: request.params['message'])
  else
    json.call(404, error: 'not found')
  end
}
