"""A provider of a language model, on loopback: every question gets the same answer."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"
PROMPT, CACHED, COMPLETION = 100, 80, 5
MODEL = "gpt-4o-mini-2024-07-18"
USAGE = {
    "prompt_tokens": PROMPT,
    "completion_tokens": COMPLETION,
    "total_tokens": PROMPT + COMPLETION,
    "prompt_tokens_details": {"cached_tokens": CACHED},
}


class _Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["messages"][-1]["content"] == "fail":
            self._answer(400, {"error": {"message": "not today", "type": "invalid_request_error"}})
            return
        message = {"role": "assistant", "content": "The harbour opens at nine."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        whole = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [choice],
            "usage": USAGE,
        }
        self._answer(200, whole)

    def _answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def provider():
    """Its address."""
    listener = ThreadingHTTPServer((HOST, 0), _Provider)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield f"http://{HOST}:{listener.server_port}/v1"
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
