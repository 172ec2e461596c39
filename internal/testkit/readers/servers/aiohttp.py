"""aiohttp. Answers with what it reads. Usage: aiohttp.py PORT"""

import os
import sys

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # or else this file is the module

from aiohttp import web  # noqa: E402


async def answer(r):
    return web.json_response({
        "path": r.path,
        "query": r.query.get("key", ""),
        "cookie": r.cookies.get("session", ""),
        "header": r.headers.get("X-Api-Key", ""),
        "method": r.method,
        "override": r.headers.get("X-HTTP-Method-Override", ""),
        "host": r.host,
    })


app = web.Application()
app.router.add_route("*", "/{path:.*}", answer)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
