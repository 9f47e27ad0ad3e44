# Runs llama.cpp's server inside Python until standard input ends.
#
# The first line of standard input is a JSON object with the settings; the API key
# is among them, so that no other user can read it from the process list. The rest
# of standard input is a lifeline: it ends when whoever started this is gone, in
# whatever way that happened.
import json
import os
import threading

# Unbuffered: a thread that waits in a buffered read holds a lock that Python wants
# when it ends.
stdin = open(0, "rb", buffering=0)
settings = json.loads(stdin.readline())


def end_with_lifeline():
    while stdin.read(4096):
        pass
    os._exit(0)


threading.Thread(target=end_with_lifeline, daemon=True).start()

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = settings["model"]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.api_keys = [settings["key"]]
params.n_ctx = settings["context_tokens"]
params.n_parallel = 1
params.cpuparams.n_threads = settings["threads"]
params.cpuparams_batch.n_threads = settings["threads"]
# Waiting threads sleep: on a busy machine spinning ones take the time of those
# that they wait for.
params.cpuparams.poll = 0
params.cpuparams_batch.poll = 0
params.cache_ram_mib = 256
params.use_jinja = True
params.ui = False
params.warmup = False
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
threading.Event().wait()
