"""Files are there whole or not at all, and nothing of a killed process stays for ever."""

import os
import signal
import subprocess
import sys
from time import sleep

import pytest
from shell import environment

from lasn import locks
from lasn.atomic import write_atomically

WRITER = """
import os, signal, sys
from lasn.atomic import write_atomically
def chunks():
    yield b"half of "
    os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], chunks())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks")
def test_what_a_killed_process_left_goes_with_the_next_writing(tmp_path):
    path = tmp_path / "model.lasn"
    path.write_bytes(b"old")
    killed = subprocess.run([sys.executable, "-c", WRITER, path], env=environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2
    write_atomically(path, [b"new"])
    assert os.listdir(tmp_path) == ["model.lasn"]
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks")
def test_what_somebody_writes_or_that_is_not_ours_stays(tmp_path):
    others = [".m.0123456789ab.tmp", ".m.notes.tmp", ".n.0123456789ab.tmp", "m.0123456789ab.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    with open(tmp_path / others[0], "rb") as held:
        assert locks.take(held.fileno(), wait=False)
        write_atomically(tmp_path / "m", [b"new"])
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "m"])


FOREVER = """
import sys
from itertools import cycle
from lasn.atomic import write_atomically
for letter in cycle((b"A", b"B")):
    write_atomically(sys.argv[1], [letter * 100_000] * 10)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_killed_at_any_moment_it_is_the_old_file_or_the_new_one(tmp_path, rng):
    path = tmp_path / "file"
    path.write_bytes(b"A" * 1_000_000)
    met = set()
    for pause in rng.uniform(0.0, 0.02, size=8):
        before = path.stat().st_mtime_ns
        process = subprocess.Popen([sys.executable, "-c", FOREVER, path], env=environment())
        while path.stat().st_mtime_ns == before:
            assert process.poll() is None
        sleep(pause)
        process.kill()
        process.wait(30)
        met.add(path.read_bytes())
        assert len(os.listdir(tmp_path)) <= 2
    assert met <= {b"A" * 1_000_000, b"B" * 1_000_000}


def test_writers_of_one_name_leave_one_of_their_files(tmp_path):
    """Each writes while the other does: neither takes the other's file for abandoned."""

    def meanwhile():
        yield b"first"
        write_atomically(tmp_path / "m", [b"second"])

    write_atomically(tmp_path / "m", meanwhile())
    assert (tmp_path / "m").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["m"]
