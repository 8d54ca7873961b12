"""A real browser for tests of pages: headless Chromium, driven through its debugging pipe."""
import contextlib
import json
import os
import shutil
import subprocess
import time

import pytest


class ScriptError(Exception):
    """What a page or the browser says against a script."""


class Browser:
    def __init__(self, profile):
        program = shutil.which("chromium") or pytest.skip("there is no chromium here")
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()
        command = (f'exec "$0" --headless --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir="$1" '
                   f"3<&{from_us} 4>&{to_us}")
        self._process = subprocess.Popen(["bash", "-c", command, program, str(profile)], pass_fds=(from_us, to_us),
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self._number, self._pending, self._session = 0, b"", {}

    def close(self):
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)

    def _call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._pending:
                part = os.read(self._from, 65536)
                assert part, "the browser has ended"
                self._pending += part
            text, self._pending = self._pending.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise ScriptError(answer["error"]["message"])
                return answer["result"]

    def open(self, url):
        self._session = {}
        target = self._call("Target.createTarget", url=url)["targetId"]
        self._session = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def run(self, script):
        """What an expression of JavaScript gives, a promise awaited."""
        result = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise ScriptError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait_for(self, condition, seconds=60):
        """Waits until an expression is true (in Python, where an element is an empty object), and gives its value."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                value = self.run(condition)
            except ScriptError:
                value = None
            if value:
                return value
            assert time.monotonic() < deadline, (condition, self.run("document.body.innerText"))
            time.sleep(0.02)


@contextlib.contextmanager
def chromium(profile):
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.close()
