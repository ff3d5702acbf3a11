"""What happens to a request between its rule and its server.

Pure. Which requests get which of these is decided in `table`.
"""

import re
from typing import Any, Final

from gateway.http.links import COOKIE_NAME

AUTH_PATH: Final = "/api/v1/dashboard-auth"

_CLUSTER: Final = "[a-z0-9][-a-z0-9]*"

# What a tenant's server must not say in the name of an origin that it shares
# with others: cookies, challenges, service workers for other paths, policies
# and alternatives for the whole host. Traefik 3.7 leaves the headers of a 101
# as they are, and a page's script can set cookies too: only a host of their
# own keeps dashboards apart for good.
_DROPPED_RESPONSE_HEADERS: Final = (
    "Alt-Svc",
    "Clear-Site-Data",
    "NEL",
    "Proxy-Authenticate",
    "Public-Key-Pins",
    "Report-To",
    "Reporting-Endpoints",
    "Service-Worker-Allowed",
    "Set-Cookie",
    "Set-Cookie2",
    "Strict-Transport-Security",
    "WWW-Authenticate",
)
# The visitor's own credentials are the gateway's business alone.
_DROPPED_REQUEST_HEADERS: Final = (
    "Authorization",
    "Cookie",
    "Forwarded",
    "Proxy-Authorization",
)
# All that the API may know of a visitor: who they are, and whether another
# site's page is behind the request (WebSockets know no same-origin policy;
# their mark is the version, since `Upgrade` is never passed on).
_AUTH_REQUEST_HEADERS: Final = (
    "Accept",
    "Authorization",
    "Cookie",
    "Origin",
    "Sec-Fetch-Dest",
    "Sec-Fetch-Mode",
    "Sec-Fetch-Site",
    "Sec-WebSocket-Version",
)


def build_middlewares(base_path: str, login_url: str, *, tls: bool) -> dict[str, Any]:
    """Build all middlewares; none of them is for one cluster alone.

    Parameters
    ----------
    base_path
        What every public path starts with; empty for the root.
    login_url
        Whom to ask whether a visitor may see a dashboard.
    tls
        Whether the public port speaks HTTPS.
    """
    quoted = re.escape(base_path)
    middlewares: dict[str, Any] = {
        "api-headers": {"headers": {"customRequestHeaders": {"Forwarded": ""}}},
        # The stock client deletes its cluster on any 502 of `?wait`; this
        # covers some 14 s of a gateway's restart. Bodies of methods that may
        # be repeated are kept up to 1 MiB, the API's own limit; longer ones
        # and those of POST are passed on as they come.
        "api-retry": {
            "retry": {
                "attempts": 20,
                "initialInterval": "500ms",
                "status": ["502"],
                "maxRequestBodyBytes": 1 << 20,
            }
        },
        "dashboard-login": {
            "forwardAuth": {
                "address": login_url,
                "trustForwardHeader": False,
                "preserveLocationHeader": True,
                "authRequestHeaders": list(_AUTH_REQUEST_HEADERS),
                # A renewed one, on an answer that lets the visitor through.
                "addAuthCookiesToResponse": [COOKIE_NAME],
                "maxResponseBodySize": 1 << 20,
            }
        },
        # distributed answers `/` by a redirect to an absolute `/status`.
        "dashboard-root": {
            "redirectRegex": {
                "regex": rf"^[^/]*//[^/]*({quoted}/clusters/{_CLUSTER})/?(\?.*)?$",
                "replacement": "${1}/status",
            }
        },
        "dashboard-strip": {
            "stripPrefixRegex": {"regex": [f"^{quoted}/clusters/{_CLUSTER}"]}
        },
        "dashboard-headers": {
            "headers": {
                "customRequestHeaders": dict.fromkeys(_DROPPED_REQUEST_HEADERS, ""),
                "customResponseHeaders": dict.fromkeys(_DROPPED_RESPONSE_HEADERS, ""),
            }
        },
    }
    if base_path:
        middlewares["api-strip"] = {"stripPrefix": {"prefixes": [base_path]}}
    if tls:
        middlewares["to-https"] = {
            "redirectRegex": {"regex": "^http://(.*)$", "replacement": "https://${1}"}
        }
    return middlewares
