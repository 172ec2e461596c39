"""Werkzeug, on which Flask stands. Answers with what it reads. Usage: werkzeug.py PORT"""

import json
import logging
import os
import sys

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # or else this file is the module

from werkzeug.serving import run_simple  # noqa: E402
from werkzeug.wrappers import Request, Response  # noqa: E402


@Request.application
def answer(r):
    return Response(json.dumps({
        "path": r.path,
        "query": r.args.get("key", ""),
        "cookie": r.cookies.get("session", ""),
        "header": r.headers.get("X-Api-Key", ""),
        "method": r.method,
        "override": r.environ.get("HTTP_X_HTTP_METHOD_OVERRIDE", ""),
        "host": r.headers.get("Host", ""),
    }))


logging.getLogger("werkzeug").disabled = True
run_simple("127.0.0.1", int(sys.argv[1]), answer, threaded=True)
