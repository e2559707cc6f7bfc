"""An engine that costs as little as Python allows: what is measured beside it is llmgw, not the stand-in.

Takes the command line of `vllm serve`. BENCH_DELAY: seconds before it listens. BENCH_MARK: file that gets the monotonic
time in nanoseconds from which it answers.
"""

import os
import socket
import sys
import time


def main(argv):
    port = int(argv[argv.index("--port") + 1])
    name = argv[argv.index("--served-model-name") + 1]
    time.sleep(float(os.environ.get("BENCH_DELAY", "0")))
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    if mark := os.environ.get("BENCH_MARK"):
        with open(mark, "w") as file:
            file.write(str(time.monotonic_ns()))
    models = b'{"object":"list","data":[{"id":"%s","object":"model"}]}' % name.encode()
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: "
    healthy = head + b"0\r\n\r\n"
    served = head + b"%d\r\n\r\n" % len(models) + models
    while True:
        connection, _ = listener.accept()
        with connection:
            request = connection.recv(4096)
            connection.sendall(served if request.startswith(b"GET /v1/models") else healthy)


if __name__ == "__main__":
    main(sys.argv)
