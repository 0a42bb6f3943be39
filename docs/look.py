"""Open every page of the site in Chromium: broken links and images, what the console says, pages wider than a phone.

    python docs/look.py docs/_build/html out/look [--only why,index]

Pages are opened from a server of this process at the width of a desk and of a phone, in light and in dark (those that
were generated: one of each only), and screenshots are kept in the second folder. Search is asked once, and the figure
that can be played with is. What is wrong is printed; the exit code is then 1.
Needs ``pip install playwright`` and a Chromium: the one on the path, or that of ``playwright install chromium``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

SIZES = {"desk": (1400, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
# What generated pages are opened in, which all look alike.
ENOUGH = (("desk", "light"), ("phone", "dark"))
# What is asked of every page that is open.
LINKS = "[...document.querySelectorAll('a[href]')].map(a => a.href)"
NAMES = "[...document.querySelectorAll('[id]')].map(e => e.id)"
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CALM = "*, *::before, *::after { transition: none !important; animation: none !important; }"


class Quiet(SimpleHTTPRequestHandler):
    """A server that keeps its requests to itself."""

    def log_message(self, *what: Any) -> None:
        """Say nothing."""


def main() -> int:
    """Look at all pages; return 1 if anything is wrong."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("site", type=Path)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--only", default="", help="names of pages, with commas between them")
    given = arguments.parse_args()
    only = set(filter(None, given.only.split(",")))
    pages = [path.relative_to(given.site) for path in sorted(given.site.rglob("*.html")) if "_static" not in path.parts]
    pages = [page for page in pages if not only or str(page.with_suffix("")) in only]
    given.out.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(given.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrong = 0
    for each in look(f"http://127.0.0.1:{server.server_port}", given.site, pages, given.out):
        print(each, flush=True)
        wrong += 1
    server.shutdown()
    print(f"{len(pages)} pages, {wrong} things wrong")
    return int(wrong > 0)


def look(base: str, site: Path, pages: list[Path], out: Path) -> Iterator[str]:
    """Yield what is wrong with any of the pages."""
    from playwright.sync_api import sync_playwright

    links: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"))
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                for page in (page for page in pages if (size, scheme) in ENOUGH or not _is_generated(page)):
                    yield from _open(context, f"{base}/{page}", f"{size}-{scheme}", out, links, names)
                if (size, scheme) == ("desk", "light"):
                    yield from _search(context, base, out)
                    yield from _play(context, base)
                context.close()
        browser.close()
    yield from _broken_links(base, site, links, names)


def _is_generated(page: Path) -> bool:
    return "generated" in page.parts or page.name.startswith("plot_")


def _open(
    context: Any, url: str, how: str, out: Path, links: dict[str, set[str]], names: dict[str, set[str]]
) -> Iterator[str]:
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: said.append(f"{request.url} was not found"))
    page.goto(url, wait_until="load")
    page.add_style_tag(content=CALM)
    where = urlsplit(url).path
    links[where], names[where] = set(page.evaluate(LINKS)), set(page.evaluate(NAMES))
    yield from (f"{where} ({how}): console: {text}" for text in said)
    yield from (f"{where} ({how}): image {source} is broken" for source in page.evaluate(BROKEN))
    if (over := page.evaluate(OVERFLOW)) > 1:
        yield f"{where} ({how}): {over} pixels wider than the screen"
    if "generated" not in where:
        name = where.strip("/").replace("/", "_").removesuffix(".html")
        page.screenshot(path=out / f"{name}-{how}.png", full_page=True)
    page.close()


def _search(context: Any, base: str, out: Path) -> Iterator[str]:
    """Ask for something that is there."""
    page = context.new_page()
    page.goto(f"{base}/search.html?q=certificate", wait_until="load")
    try:
        page.wait_for_selector("#search-results li", timeout=10_000)
    except Exception:
        yield "search.html: nothing is found for “certificate”"
    page.screenshot(path=out / "search-results.png")
    page.close()


def _play(context: Any, base: str) -> Iterator[str]:
    """Step to the minimum of the bound a few times: the objective must fall, and Newton's first step raise it."""
    page = context.new_page()
    page.goto(f"{base}/why.html", wait_until="load")
    for go, steps, falls in (("newton", 1, False), ("bound", 8, True)):
        page.click("#majorization [data-go=start]")
        for _ in range(steps):
            page.click(f"#majorization [data-go={go}]")
            before, after = (float(x) for x in re.findall(r"from (\S+) to (\S+)\. F", page.inner_text(".said"))[0])
            if (after <= before) != falls:
                yield f"why.html: a step of the {go} led from {before} to {after}"
    page.close()


def _broken_links(base: str, site: Path, links: dict[str, set[str]], names: dict[str, set[str]]) -> Iterator[str]:
    """Yield links within the site whose page or whose place on it is not there; others are not followed."""
    host = urlsplit(base).netloc
    for where, targets in links.items():
        for target in sorted(targets):
            address, place = urldefrag(target)
            parts = urlsplit(address)
            if parts.netloc != host:
                continue
            if parts.path in names and place and unquote(place) not in names[parts.path]:
                yield f"{where}: {parts.path} has no #{place}"
            elif not (site / unquote(parts.path).strip("/")).is_file():
                yield f"{where}: {parts.path} is not there"


if __name__ == "__main__":
    sys.exit(main())
