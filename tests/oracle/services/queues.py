# SPDX-License-Identifier: Apache-2.0
"""Publishes messages to a queue of RabbitMQ and takes them from it, and prints how many there were."""
import argparse
import threading
import time

import pika

BATCH = 50


def connect(port):
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, socket_timeout=30))


def publish(args, end):
    connection = connect(args.port)
    channel = connection.channel()
    while time.monotonic() < end:
        for i in range(BATCH):
            channel.basic_publish("", args.queue, b"x" * (100 + i * 7), pika.BasicProperties(headers={"number": i}))
        connection.process_data_events(0)
        time.sleep(0.01)
    connection.close()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("port", type=int)
    p.add_argument("--queue", default="q")
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--once", action="store_true", help="only connect")
    args = p.parse_args()
    connection = connect(args.port)
    channel = connection.channel()
    channel.queue_declare(args.queue, auto_delete=True)
    if args.once:
        return
    channel.basic_qos(prefetch_count=100)
    end, received = time.monotonic() + args.seconds, 0
    publisher = threading.Thread(target=publish, args=(args, end), daemon=True)
    publisher.start()
    for method, _, _ in channel.consume(args.queue, inactivity_timeout=1):
        if method:
            channel.basic_ack(method.delivery_tag)
            received += 1
        if time.monotonic() > end:
            break
    print(received)


if __name__ == "__main__":
    main()
