"""Headless Chromium, driven through the pipe of its DevTools protocol: no library, no port."""

import base64
import contextlib
import importlib.util
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 120
PHONE, DESK = 390, 1300  # widths of a screen
SCREENS = [(width, scheme) for width in (PHONE, DESK) for scheme in ("light", "dark")]


# What is wider than the screen, which does not scroll sideways.
BEYOND = (
    "[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right >"
    " document.documentElement.clientWidth + 1 && getComputedStyle(one.parentElement).overflowX ==="
    " 'visible').map((one) => one.tagName)"
)


def chromium():
    """The first browser there is, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def axe():
    """axe-core's script, of the package axe-playwright-python, or None."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None:
        return None
    (folder,) = spec.submodule_search_locations
    return pathlib.Path(folder, "axe.min.js")


class Browser:
    """One page.

    Attributes:
        heard: events that came, oldest first.
    """

    def __init__(self, process, write, read):
        self.process, self.write, self.read = process, write, read
        self.number, self.rest, self.heard, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """What the browser answers."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.heard.append(answer)

    def _next(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            got = os.read(self.read, 1 << 16)
            assert got, "the browser has ended"
            self.rest += got
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def open(self, url):
        """Go there."""
        self.call("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, script):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script):
        """Until a JavaScript expression is true."""
        until = time.monotonic() + SECONDS
        while not self.run(script):
            assert time.monotonic() < until, (
                f"never: {script}; {self.run('document.body.innerText')}"
            )
            time.sleep(0.05)

    def type(self, text):
        """Into whatever has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key, code, modifiers=0):
        """A key; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        held = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        if key == " ":
            held["text"] = " "
        self.call("Input.dispatchKeyEvent", type="keyDown", **held)
        self.call("Input.dispatchKeyEvent", type="keyUp", **held)

    def as_phone(self, scheme):
        """A small screen, of a user who prefers a colour scheme: "light" or "dark"."""
        self.as_screen(PHONE, scheme)

    def as_screen(self, width, scheme):
        """A screen so wide, of a user who prefers a colour scheme and nothing that moves."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1,
            mobile=width == PHONE,
        )  # fmt: skip
        self.prefer({"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"})

    def prefer(self, features):
        """The user's preferences, as media features of CSS."""
        named = [{"name": name, "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def violations(self):
        """What axe-core finds against the page: (rule, element) each."""
        self.call("Runtime.evaluate", expression=axe().read_text(encoding="utf-8"))
        self.call(
            "Runtime.evaluate",
            expression="delete window.axeFound; axe.run().then((report) => {"
            " window.axeFound = report.violations.flatMap((rule) =>"
            " rule.nodes.map((node) => [rule.id, node.html.slice(0, 120)])); })",
        )
        self.wait_for("window.axeFound !== undefined")
        return self.run("window.axeFound")

    def screenshot(self):
        """The whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


@contextlib.contextmanager
def browser(folder, width=1100, height=800):
    """A ``Browser`` with its profile in an empty folder."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--disable-background-networking", f"--user-data-dir={folder}",
        f"--window-size={width},{height}", "--remote-debugging-pipe",
    ]  # fmt: skip
    # The browser expects its pipe at 3 and 4; through 8 and 9, lest one end overwrite the other.
    moved = f'exec 8<&{theirs_in} 9>&{theirs_out}; exec 3<&8 4>&9 8<&- 9>&-; exec "$0" "$@"'
    process = subprocess.Popen(
        ["bash", "-c", moved, chromium(), *flags],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(process, ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
