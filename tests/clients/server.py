"""The built server as a process, and the few questions that every test asks it."""

import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

PROGRAMS = Path(os.environ.get("DAYBOOK_PROGRAMS", Path(__file__).parents[2] / "target" / "debug"))
HOST = "127.0.0.1"
LISTENING = "traza-server listening on "
STOPS_WITHIN = 30


class Server:
    """A process of its own; `port` 0 takes a free one."""

    def __init__(self, folder, *flags, port=0, env=None, command=("traza-server",), cwd=None):
        program, *verb = command
        self.folder = folder
        self.lines = []
        self.process = subprocess.Popen(
            [PROGRAMS / program, *verb, "--data-dir", folder, "--port", str(port), *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith(LISTENING):
                break
        else:
            raise RuntimeError(f"the server did not start: {''.join(self.lines)}")
        self.port = int(line.rsplit(":", 1)[1])
        self.url = f"http://{HOST}:{self.port}"
        # Nobody may block on a full pipe.
        threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True).start()

    def request(self, method, path, body=None, headers=None):
        """Status and bytes of an answer, whatever the status."""
        request = urllib.request.Request(self.url + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path, **parameters):
        """What a question is answered with."""
        query = urllib.parse.urlencode(parameters)
        status, body = self.request("GET", path + ("?" + query if query else ""))
        assert status == 200, f"{path} answered {status}: {body!r}"
        return json.loads(body)

    def trace(self, trace_id):
        """The spans of a trace by their ids."""
        return {span["span_id"]: span for span in self.get(f"/v1/traces/{trace_id}")["spans"]}

    def spans(self):
        """All spans, by trace and span id; none may come twice."""
        status, body = self.request("GET", "/v1/export")
        assert status == 200
        found = [json.loads(line) for line in body.splitlines() if line]
        by_key = {(span["trace_id"], span["span_id"]): span for span in found}
        assert len(by_key) == len(found), "a span was exported twice"
        return by_key

    def kill(self):
        """Ends it as a power cut would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOPS_WITHIN)

    def stop(self):
        """Asks it to end, and answers its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOPS_WITHIN)
