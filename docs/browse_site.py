"""Look at a built site in a browser: every page, wide and narrow, light and dark.

    python docs/browse_site.py docs/build/html SCREENSHOTS --browser /usr/bin/chromium

Fails if a page is wider than the window, a script complains, or anything is asked of another host.
The screenshots are for people to look at. Needs playwright.
"""

import argparse
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

WIDTHS = (1280, 390)
THEMES = ("light", "dark")
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
# What sticks out of the window: the page itself, or an element that no parent lets scroll.
_OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  return [...document.querySelectorAll('main *')]
    .filter(e => e.getBoundingClientRect().right > wide + 1)
    .slice(0, 5).map(e => e.tagName + '.' + (e.getAttribute('class') || ''));
}"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        pass


def look(
    site: Path, folder: Path, browser_path: str | None, only: str, widths: list[int]
) -> list[str]:
    """Open every page at each width, light and dark; what is wrong, one line each."""
    from playwright.sync_api import sync_playwright

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    names = [name for name in names if only in name and not name.startswith("_static")]
    wrong: list[str] = []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=browser_path, args=_FLAGS.split(), headless=True
            )
            for width in widths:
                for theme in THEMES:
                    size = {"width": width, "height": 900}
                    context = browser.new_context(viewport=size, color_scheme=theme)
                    for name in names:
                        where = f"{name} at {width} px, {theme}"
                        found = _open(context, host, name, folder / f"{theme}-{width}")
                        wrong += [f"{where}: {one}" for one in found]
                    context.close()
            browser.close()
    finally:
        server.shutdown()
    return wrong


def _open(context, host: str, name: str, folder: Path) -> list[str]:
    """Open one page, keep a picture of it; what is wrong with it."""
    wrong: list[str] = []
    page = context.new_page()

    def on_console(message) -> None:
        if message.type in ("error", "warning"):
            wrong.append(f"console: {message.text}")

    def on_request(request) -> None:
        parts = urlsplit(request.url)
        if parts.netloc != host and parts.scheme not in ("data", "blob"):
            wrong.append(f"asks for {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("request", on_request)
    page.goto(f"http://{host}/{name}", wait_until="load")
    sticking_out = page.evaluate(_OVERFLOW)
    if sticking_out:
        wrong.append(f"wider than the window: {', '.join(sticking_out)}")
    picture = folder / name.replace("/", "--").replace(".html", ".png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(picture), full_page=True)
    page.close()
    return wrong


def main() -> int:
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("site", type=Path)
    command.add_argument("screenshots", type=Path)
    command.add_argument("--browser", help="the browser's program; default: playwright's own")
    command.add_argument("--only", default="", help="pages whose path contains this")
    command.add_argument("--width", nargs="+", type=int, default=WIDTHS, help="of the window")
    options = command.parse_args()
    wrong = look(options.site, options.screenshots, options.browser, options.only, options.width)
    print("\n".join(wrong) if wrong else "no overflow, no errors, no request to another host")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
