"""The kinds of rounds of two ranks."""
import contextlib
import glob
import os
import signal
import socket
import threading
import time

from workplace import LONGEST, STOPPED, TWO_RANKS, Finding, expect, free_port


def processes_of(parent):
    """The process, and those it started that still run."""
    found = [parent]
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(stat.split("/")[2]))
    return found


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def killed_rank(round):
    """One of two ranks is killed, which ends the other, and a single process takes over."""
    process = round.start(*TWO_RANKS)
    after = round.moment()
    time.sleep(after)
    ranks = processes_of(process.pid)
    killed = round.random.choice(ranks)
    if process.poll() is None:
        try:
            os.kill(killed, signal.SIGKILL)
        except ProcessLookupError:  # rank 1 is at its end, and rank 0 has seen that
            pass
    ended = round.place.finish(process)
    round.done.append(f"killed one of {len(ranks)} ranks after {after:.3f} s: {ended}")
    expect(ended, (0, 3, -signal.SIGKILL), "a run without one of its ranks")
    if ended.code == 3 and f"rank 1 (process {killed}) was killed by signal 9" not in ended.err:
        if "rank 1 was killed by signal 9 (Killed) before the run began" not in ended.err:
            raise Finding(f"the end of rank 1 was not named: {ended}")
    if ended.code != 0:
        round.place.count("killed ranks")
    wait_for_end(ranks)
    return round.resume()


def send(process, number):
    """False where it has ended."""
    try:
        os.kill(process, number)
        return True
    except ProcessLookupError:
        return False


def wait_for_end(processes):
    end = time.monotonic() + LONGEST
    while any(is_running(process) for process in processes):
        if time.monotonic() > end:
            raise Finding(f"of the ranks {processes} some go on")
        time.sleep(0.02)


def stopped_rank(round):
    """One of two ranks is stopped. It goes on later, or the first signal to the other one ends the run without it."""
    process = round.start(*TWO_RANKS)
    after = round.moment()
    time.sleep(after)
    ranks = processes_of(process.pid)
    stopped = round.random.choice(ranks)
    others = [rank for rank in ranks if rank != stopped]
    send(stopped, signal.SIGSTOP)
    asked = others and round.random.random() < 0.5
    round.done.append(f"stopped one of {len(ranks)} ranks after {after:.3f} s" + (", and SIGTERM to the other" if asked else ""))
    if asked:
        send(others[0], signal.SIGTERM)
        wait_for_end(others)
    else:
        time.sleep(round.random.uniform(0, 2))
    for rank in ranks:
        send(rank, signal.SIGCONT)
    ended = round.place.finish(process)
    round.done.append(str(ended))
    # Before its handlers are there, a signal ends a run as it ends any program.
    expect(ended, (0, 3, STOPPED, -signal.SIGTERM) if asked else (0,), "a run of which a rank was stopped")
    wait_for_end(ranks)
    round.place.count("stopped ranks")
    return round.resume()


def drip(stranger, say):
    with contextlib.suppress(OSError):  # it was sent away
        for byte in say:
            stranger.sendall(bytes([byte]))
            time.sleep(0.3)


def visit(port, process, random, strangers):
    """Connects to rank 0 while it waits, and says nothing, something else, or something slowly."""
    says = [b"", b"GET / HTTP/1.1\r\n\r\n", b"h\0\0\0\5\0\0\0hello", b"h\0\0\0\xff\xff\xff\xff", os.urandom(64)]
    for _ in range(random.randint(1, 150)):
        while process.poll() is None:
            try:
                strangers.append(socket.create_connection(("127.0.0.1", port), timeout=1))
                break
            except OSError:
                time.sleep(0.01)
        else:
            return
        say = random.choice(says)
        if random.random() < 0.2:
            threading.Thread(target=drip, args=(strangers[-1], b"h\0\0\0\x40\x1f\0\0" + b"a" * 8000), daemon=True).start()
        else:
            with contextlib.suppress(OSError):
                strangers[-1].sendall(say)


def strangers(round):
    """The two ranks are on two hosts, and others find the port before the second one comes."""
    port, connections = free_port(), []

    def start(rank):
        variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": rank}
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "HYDRAC_ADDRESS": f"127.0.0.{rank + 1}"}
        return round.start(*TWO_RANKS, environment={name: str(value) for name, value in variables.items()})

    first = start(0)
    visit(port, first, round.random, connections)
    second = start(1)
    ended = [round.place.finish(process) for process in (first, second)]
    for connection in connections:
        connection.close()
    round.done += [f"{len(connections)} strangers", *map(str, ended)]
    for one in ended:
        expect(one, (0,), "a rank among strangers")
    round.place.count("strangers", len(connections))
    return round.resume()


KINDS = {"killed rank": killed_rank, "stopped rank": stopped_rank, "strangers": strangers}
