"""Tornado. Answers with what it reads. Usage: tornado.py PORT"""

import asyncio
import os
import sys

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # or else this file is the module

from tornado.escape import url_unescape  # noqa: E402
from tornado.web import Application, RequestHandler  # noqa: E402


class Reader(RequestHandler):
    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "DELETE", "PATCH", "PUT", "OPTIONS")

    def answer(self):
        r = self.request
        self.write({
            "path": url_unescape(r.path, encoding="latin-1", plus=False),
            "query": self.get_query_argument("key", ""),
            "cookie": self.get_cookie("session", ""),
            "header": r.headers.get("X-Api-Key", ""),
            "method": r.method,
            "override": r.headers.get("X-HTTP-Method-Override", ""),
            "host": r.host_name,
        })

    get = head = post = delete = patch = put = options = answer

    def check_xsrf_cookie(self):
        pass


async def main():
    Application([(r".*", Reader)]).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
