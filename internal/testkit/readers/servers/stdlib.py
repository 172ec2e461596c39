"""Python's http.server, http.cookies and urllib.parse. Answers with what it reads. Usage: stdlib.py PORT"""

import json
import os
import sys
from http.cookies import CookieError, SimpleCookie
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Reader(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            cookies = {}
        body = json.dumps({
            "path": "/" + os.path.relpath(self.translate_path(self.path), self.directory),
            "query": parse_qs(urlsplit(self.path).query).get("key", [""])[0],
            "cookie": cookies["session"].value if "session" in cookies else "",
            "header": self.headers.get("X-Api-Key", "").strip(),
            "method": self.command,
            "override": self.headers.get("X-HTTP-Method-Override", "").strip(),
            "host": self.headers.get("Host", "").strip(),
        }).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    do_GET = do_HEAD = answer

    def log_message(self, *args):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Reader).serve_forever()
