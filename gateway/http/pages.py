"""Pages for people whose browser came to a dashboard that it cannot have."""

from html import escape

from aiohttp import web

# Nothing of a tenant's can run in them, nor learn where they were.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ font: 1rem/1.5 sans-serif; max-width: 40rem; margin: 4rem auto }}</style>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""


def build_page(status: int, title: str, text: str) -> web.Response:
    """Return a page with a title and one paragraph, both plain text."""
    return web.Response(
        status=status,
        text=_PAGE.format(title=escape(title), text=escape(text)),
        content_type="text/html",
        headers=_HEADERS,
    )


def build_login_page() -> web.Response:
    """Return what a visitor sees whom nothing lets in."""
    return build_page(
        401,
        "This dashboard needs a login",
        "Open it from your program or notebook: the link that the client shows as "
        "cluster.dashboard_link logs you in. An old link has to be asked for anew.",
    )


def build_absent_page() -> web.Response:
    """Return what a visitor sees for a cluster without a dashboard, or none."""
    return build_page(
        404,
        "There is no such dashboard",
        "The cluster has stopped, has not started yet, has no dashboard, or is not "
        "yours.",
    )


def build_foreign_page() -> web.Response:
    """Return the answer to a call that another site's page made."""
    return build_page(
        403,
        "Not from there",
        "A page of another site asked for this dashboard in your name.",
    )
