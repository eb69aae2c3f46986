"""``lasn data`` as a person types it."""

import os
import signal
import subprocess
import sys

import pytest
from file_server import serving, until
from svmlight_files import IRIS, LIVER, SITE

from lasn.cli import main


@pytest.fixture
def server():
    with serving(SITE) as running:
        yield running


@pytest.fixture
def lasn_data(cache, capsys):
    """A function that runs the command and returns exit code, output and errors, as lines."""

    def run(*arguments):
        try:
            code = main(["data", *arguments])
        except SystemExit as leaving:
            code = leaving.code
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err.splitlines()

    return run


def test_list_says_what_there_is_and_what_is_here(lasn_data, cache):
    cache.mkdir(parents=True)
    (cache / "iris.scale").write_bytes(IRIS)
    (cache / "liver-disorders").write_bytes(LIVER)
    code, out, err = lasn_data("list")
    assert (code, err) == (0, [])
    assert out[0].split() == ["name", "rows", "test", "rows", "features", "classes", "present"]
    rows = {line.split()[0]: line.split()[1:] for line in out[1:]}
    assert rows["a9a"] == ["32561", "16281", "123", "2", "-"]
    assert rows["iris.scale"] == ["150", "40", "%", "4", "3", "yes"]
    assert rows["liver-disorders"] == ["145", "200", "5", "2", "only", "train"]
    assert rows["cadata"] == ["20640", "40", "%", "8", "real", "-"]


def test_list_paper_has_its_28_sets_and_explains_its_counts(lasn_data):
    code, out, err = lasn_data("list", "--paper")
    assert (code, err) == (0, [])
    assert out.index("") == 29
    assert "mushrooms: The paper's 4874 are the first 60 %." in out[30:]


def test_fetch_path_and_verify(lasn_data, cache, server):
    code, out, err = lasn_data("fetch", "liver-disorders", "--base", server.address)
    train, test = str(cache / "liver-disorders"), str(cache / "liver-disorders.t")
    assert (code, err) == (0, [])
    assert out == [f"liver-disorders    {train}", f"liver-disorders.t  {test}"]
    assert lasn_data("path", "liver-disorders") == (0, [train, test], [])
    code, out, err = lasn_data("verify")
    assert (code, err) == (0, [])
    assert out == [
        f"ok   {train}: 145 rows; its SHA-256 is not known",
        f"ok   {test}: 200 rows; its SHA-256 is not known",
    ]


def test_verify_fails_for_bad_and_for_missing_files(lasn_data, cache):
    cache.mkdir(parents=True)
    (cache / "a9a").write_bytes(b"-1 3:1\n")
    code, out, err = lasn_data("verify", "a9a")
    assert (code, err) == (1, [])
    assert out[0].startswith(f"bad  {cache / 'a9a'} has 1 rows and SHA-256")
    assert out[1] == "bad  a9a.t is not on this machine"
    assert lasn_data("verify")[0] == 1
    (cache / "a9a").unlink()
    assert lasn_data("verify") == (0, [], [])


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("path", "iris.scale"), 1, "`lasn data fetch iris.scale` downloads it"),
        (("path", "iris"), 2, "no data set 'iris'; did you mean iris.scale"),
        (("fetch", "iris.scale", "a99"), 2, "no data set 'a99'"),
        (("verify", "a99"), 2, "no data set 'a99'"),
        (("fetch", "iris.scale"), 1, "place it, packed or not, in the folder that LASN_DATA names"),
        (("fetch", "iris.scale", "--base", "nonsense"), 2, "unknown url type"),
    ],
)
def test_an_error_is_one_line(lasn_data, arguments, code, complaint):
    found, out, err = lasn_data(*arguments)
    assert (found, out) == (code, [])
    assert len(err) == 1
    assert err[0].startswith("lasn data: ")
    assert complaint in err[0]


@pytest.mark.parametrize("arguments", [(), ("fetch",), ("path",), ("dance",)])
def test_bad_usage(lasn_data, arguments):
    code, out, err = lasn_data(*arguments)
    assert (code, out) == (2, [])
    assert len(err) == 1
    assert err[0].startswith("lasn: ")
    assert "See lasn data" in err[0]


@pytest.mark.parametrize("action", ["list", "fetch", "verify", "path"])
def test_help_has_a_worked_example(lasn_data, action):
    code, out, err = lasn_data(action, "--help")
    assert (code, err) == (0, [])
    assert "example:" in out
    assert any(line.startswith(f"  $ lasn data {action}") for line in out)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent there")
def test_an_interrupt_leaves_only_the_part_and_the_next_fetch_resumes(cache, server, lasn_data):
    server.pause_after = 20_000
    command = [sys.executable, "-m", "lasn", "data", "fetch", "liver-disorders"]
    process = subprocess.Popen(
        [*command, "--base", server.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    with process:
        part = cache / "liver-disorders.part"
        until(lambda: part.exists() and part.stat().st_size == 20_000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "lasn: interrupted.\n")
    assert list(cache.iterdir()) == [part]
    server.pause_after = None
    assert lasn_data("fetch", "liver-disorders", "--base", server.address)[0] == 0
    assert server.requests[1][1] == "bytes=20000-"
    assert (cache / "liver-disorders").read_bytes() == LIVER
