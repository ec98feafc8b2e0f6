"""A site that lets nobody in without logging in, with Django and mozilla-django-oidc, in one file."""

import json
import os
import urllib.request
from wsgiref.simple_server import make_server

import django
from django.conf import settings

ISSUER, SITE, PORT = os.environ["ISSUER"], os.environ["URL"], int(os.environ["PORT"])
# This client wants the endpoints one by one; the provider says what they are.
with urllib.request.urlopen(f"{ISSUER}/.well-known/openid-configuration") as document:
    provider = json.load(document)
assert provider["issuer"] == ISSUER, provider

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="signs the cookies of this site and of no other",
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "mozilla_django_oidc"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    AUTHENTICATION_BACKENDS=[f"{__name__}.Visitors"],
    LOGIN_URL="oidc_authentication_init",
    LOGIN_REDIRECT_URL="/",
    LOGIN_REDIRECT_URL_FAILURE="/failed",
    OIDC_OP_AUTHORIZATION_ENDPOINT=provider["authorization_endpoint"],
    OIDC_OP_TOKEN_ENDPOINT=provider["token_endpoint"],
    OIDC_OP_USER_ENDPOINT=provider["userinfo_endpoint"],
    OIDC_OP_JWKS_ENDPOINT=provider["jwks_uri"],
    OIDC_RP_CLIENT_ID=os.environ["CLIENT_ID"],
    OIDC_RP_CLIENT_SECRET=os.environ["CLIENT_SECRET"],
    OIDC_RP_SIGN_ALGO=os.environ["ALGORITHM"],
    # A visitor has no e-mail address.
    OIDC_RP_SCOPES="openid",
    OIDC_USE_PKCE=os.environ["PKCE"] == "S256",
    OIDC_TOKEN_USE_BASIC_AUTH=os.environ["AUTHENTICATION"] == "basic",
)

django.setup()

from django.contrib.auth.decorators import login_required  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import JsonResponse  # noqa: E402
from django.urls import include, path  # noqa: E402
from mozilla_django_oidc.auth import OIDCAuthenticationBackend  # noqa: E402


class Visitors(OIDCAuthenticationBackend):
    """Knows visitors by `sub`, which is all that a waiting room says about who they are."""

    def verify_claims(self, claims):
        return "sub" in claims

    def filter_users_by_claims(self, claims):
        return self.UserModel.objects.filter(username=claims["sub"])

    def create_user(self, claims):
        return self.UserModel.objects.create_user(claims["sub"])

    def get_userinfo(self, access_token, id_token, payload):
        user_info = super().get_userinfo(access_token, id_token, payload)
        self.request.session["page"] = {"claims": payload, "user_info": user_info}
        return user_info


@login_required
def page(request):
    return JsonResponse(request.session["page"])


def failed(_request):
    return JsonResponse({"error": "not logged in"}, status=403)


urlpatterns = [path("", page), path("failed", failed), path("oidc/", include("mozilla_django_oidc.urls"))]

call_command("migrate", verbosity=0)
server = make_server("127.0.0.1", PORT, get_wsgi_application())
print(f"listening at {SITE}", flush=True)
server.serve_forever()
