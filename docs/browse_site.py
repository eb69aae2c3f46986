"""Look at a built site in a browser: every page, wide and narrow, light and dark.

    python docs/browse_site.py docs/build/html SCREENSHOTS --browser /usr/bin/chromium

Fails if a page is wider than the window, text stands out too little from what is behind it, a
script complains, or anything is asked of another host. The screenshots are for people to look at.
Needs playwright.
"""

import argparse
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

WIDTHS = (1280, 390)
THEMES = ("light", "dark")
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
# What sticks out of the window and cannot be scrolled to: elements, and text that is wider than its
# element. The theme cuts off what is too wide, so the page's own width does not tell.
_OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const reachable = e => { for (; e; e = e.parentElement) if (scrolls(e)) return true; };
  return [...document.querySelectorAll('.bd-article *')]
    .filter(e => e.checkVisibility() && !e.closest('math, svg'))
    .filter(e => {
      const box = e.getBoundingClientRect();
      return Math.max(box.right, box.width && box.left + e.scrollWidth) > wide + 1;
    })
    .filter(e => !reachable(e))
    .slice(0, 5).map(e => e.tagName + '.' + (e.getAttribute('class') || ''));
}"""

# Text whose contrast, (L1 + 0.05) / (L2 + 0.05) of relative luminances, is below WCAG's AA: 4.5, or
# 3 for large letters. Colours are read through a canvas, whatever notation they have.
_FAINT = """() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const shown = layers => {
    pen.clearRect(0, 0, 1, 1);
    for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = layers => shown(layers)
    .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const faint = new Set();
  for (const e of document.querySelectorAll('main *, header *')) {
    if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e), behind = [];
    for (let up = e; up; up = up.parentElement)
      behind.unshift(getComputedStyle(up).backgroundColor);
    const ink = e.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const [back, front] = [luminance(behind), luminance([...behind, ink])];
    const contrast = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5))
      faint.add(`${e.tagName}.${e.getAttribute('class') || ''} ${contrast.toFixed(1)}`);
  }
  return [...faint].slice(0, 5);
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
            context = browser.new_context()
            for name in names:
                wrong += [f"{name}{one}" for one in _open(context, host, name, folder, widths)]
            browser.close()
    finally:
        server.shutdown()
    return wrong


def _open(context, host: str, name: str, folder: Path, widths: list[int]) -> list[str]:
    """Open one page, keep a picture of each way to see it; what is wrong with it."""
    wrong: list[str] = []
    page = context.new_page()

    def on_console(message) -> None:
        if message.type in ("error", "warning"):
            wrong.append(f": console: {message.text}")

    def on_request(request) -> None:
        parts = urlsplit(request.url)
        if parts.netloc != host and parts.scheme not in ("data", "blob"):
            wrong.append(f": asks for {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: wrong.append(f": script: {error}"))
    page.on("request", on_request)
    page.goto(f"http://{host}/{name}", wait_until="load")
    # Transitions from light to dark would be caught half way.
    page.add_style_tag(content="* { transition: none !important; }")
    for width, theme in product(widths, THEMES):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(
            "theme => document.documentElement.dataset.theme == theme", arg=theme
        )
        for what, script in (("wider than the window", _OVERFLOW), ("faint", _FAINT)):
            found = page.evaluate(script)
            if found:
                wrong.append(f" at {width} px, {theme}: {what}: {', '.join(found)}")
        picture = folder / f"{theme}-{width}" / (name.removesuffix(".html") + ".png")
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
    print(
        "\n".join(wrong)
        if wrong
        else "no overflow, no faint text, no errors, no request to another host"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
