#!/usr/bin/env python3
# Stands in for llama.cpp's server in tests, in both ways in which it is started:
# as the program `llama-server`, and as a Python that is given the starter.
import http.server
import json
import os
import sys
import threading
import time

if "--port" in sys.argv:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    model = sys.argv[sys.argv.index("--model") + 1]
    key = os.environ["LLAMA_API_KEY"]
    announce = False
else:
    stdin = open(0, "rb", buffering=0)
    settings = json.loads(stdin.readline())
    port, model, key, announce = 0, settings["model"], settings["key"], True

    def lifeline():
        while stdin.read(4096):
            pass
        os._exit(0)

    threading.Thread(target=lifeline, daemon=True).start()

if "broken" in model:
    print("error: broken weights", file=sys.stderr)
    sys.exit(7)
if "taken-once" in model and not os.path.exists(model + ".tried"):
    open(model + ".tried", "w").close()
    print("bind: Address already in use", file=sys.stderr)
    sys.exit(1)
with open(model + ".starts", "a") as starts:
    starts.write(f"{os.getpid()}\n")
ready_at = time.time() + (3600 if "slow" in model else 0.2)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            self.answer(200 if time.time() >= ready_at else 503)
        elif self.headers.get("Authorization") != f"Bearer {key}":
            self.answer(401)
        elif self.path == "/crash":
            print("ggml: out of memory", file=sys.stderr, flush=True)
            os._exit(134)
        else:
            self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
if announce:
    print("listening", f"http://127.0.0.1:{server.server_address[1]}", flush=True)
print("loading", model, file=sys.stderr, flush=True)
server.serve_forever()
