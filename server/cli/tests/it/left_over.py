#!/usr/bin/env python3
"""A CGI program: a process connects to the control socket of the server, starts another that has
the connection as well, and is gone before that one asks."""
import os
import socket

print("Content-Type: text/plain\n", flush=True)
gone, may_ask = os.pipe()
answer, answers = os.pipe()
if (asker := os.fork()) == 0:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("SOCKET")
    if os.fork() != 0:
        os._exit(0)
    os.read(gone, 1)
    try:
        connection.sendall(b"drain\0")
        connection.shutdown(socket.SHUT_WR)
    except BrokenPipeError:
        pass  # refused already
    os.write(answers, connection.recv(1000))
    os._exit(0)
os.waitpid(asker, 0)
os.write(may_ask, b"!")
print(os.read(answer, 1000))
