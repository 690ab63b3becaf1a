"""What the server can do: polls and updates on so many connections, with nothing in between.

`python -m bench.dispatch.bare_loop API TASK CONNECTIONS`; runs until it is ended.
"""

import sys
import threading
import time

from bench.conductor import Connection

_EMPTY_SECONDS = 0.01


def main(api: str, task_name: str, connections: int) -> None:
    """Take tasks on each connection by itself."""
    threads = [
        threading.Thread(target=_work, args=(Connection(api), task_name, f"bare-{number}"))
        for number in range(connections)
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join()


def _work(connection: Connection, task_name: str, worker: str) -> None:
    poll = f"/tasks/poll/batch/{task_name}?count=1&timeout=0&workerid={worker}"
    while True:
        tasks = connection.call("GET", poll)
        if not tasks:
            time.sleep(_EMPTY_SECONDS)
        for task in tasks or ():
            update = {
                "workflowInstanceId": task["workflowInstanceId"],
                "taskId": task["taskId"],
                "workerId": worker,
                "status": "COMPLETED",
                "outputData": {"result": task["inputData"]["params"]},
            }
            connection.call("POST", "/tasks", update)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
