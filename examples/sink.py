"""A mail server for trying weir: it accepts every message and throws it away. Use: python3 sink.py PORT"""

import socketserver
import sys


class Sink(socketserver.StreamRequestHandler):
    def answer(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def handle(self):
        self.answer("220 sink.example ESMTP")
        reading = False  # the text of a message
        for line in self.rfile:
            command = line.strip().upper()
            if reading:
                if line == b".\r\n":
                    reading = False
                    self.answer("250 2.0.0 thrown away")
            elif command == b"DATA":
                reading = True
                self.answer("354 end with a dot on a line of its own")
            elif command == b"QUIT":
                self.answer("221 2.0.0 bye")
                return
            else:
                self.answer("250 2.0.0 ok")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Sink) as server:
        server.serve_forever()
