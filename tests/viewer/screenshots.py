"""Renew the pictures of pages in docs/ (``make screenshots``): the demo pair, raced in Chromium."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from chromium_pipe import browser

ROOT = pathlib.Path(__file__).parents[2]
# Whole drafts: on a fast processor those of a small model do not pay, and none would be seen.
TEXT = "You%20can%20change%20these%20settings%20in%20the%20preferences%20dialog."
DEMO = ["specdec-demo", "data-bin/demo_ende", "--port", "0", "--draft-budget", "0"]


def main() -> None:
    """Write docs/specdec-demo.png."""
    server = subprocess.Popen(DEMO, cwd=str(ROOT), stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split(" is served at ")[1].split()[0]
        with tempfile.TemporaryDirectory() as profile, browser(profile) as page:
            page.open(f"{url}?text={TEXT}")
            page.run("document.getElementById('race').click()")
            page.wait_for("document.body.dataset.answers === '1'")
            (ROOT / "docs" / "specdec-demo.png").write_bytes(page.screenshot())
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
