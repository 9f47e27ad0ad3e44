# Runs llama.cpp's own server inside Python, with a chat template that knows
# tools, until standard input ends. Arguments: the model, the port, the template.
import os
import sys
import threading


def end_with_input():
    while os.read(0, 4096):
        pass
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()

import xllamacpp

model, port, template = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_ctx = 2048
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.cpuparams.poll = 0
params.cpuparams_batch.poll = 0
params.use_jinja = True
params.chat_template = open(template).read()
params.ui = False
params.warmup = False
server = xllamacpp.Server(params)
print("listening", flush=True)
threading.Event().wait()
