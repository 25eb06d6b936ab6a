"""A lab to play with: `lab up`, `lab exec HOST -- CMD`, `lab down`.

The holder outlives the command that started it and keeps one file, named after the lab, in this
user's runtime folder; the file goes when the lab does, a stale one when somebody looks.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.lab import checks, launch, running
from bench.lab.holder import Answer, started_ticks
from bench.lab.running import RunningLab
from bench.records import BadInput

DOWN_S = 10.0
MAX_STATE_BYTES = 1 << 20


def up(file: Path) -> int:
    """Build the lab in `file` and leave it standing; prints how to use it."""
    lab = checks.load(file)
    name = file.stem
    if name in standing():
        raise BadInput(f"a lab called {name} is already up; fabric-bench lab down takes it down")
    answer = running.open_detached(lab, state_folder() / f"{name}.json")
    hosts = " ".join(host.hostname for host in answer.hosts)
    print(f"lab {name} is up: {hosts}")
    print(f"  fabric-bench lab exec {answer.hosts[0].hostname} -- ip -brief address")
    print("  fabric-bench lab down")
    return 0


def execute(host: str, command: Sequence[str]) -> int:
    """Run `command` on a host of the standing lab; its exit status.

    `host` is a host name, or LAB/HOST when several labs are up.
    """
    lab_name, _, host_name = host.rpartition("/")
    labs = standing()
    if not labs:
        raise BadInput("no lab is up; fabric-bench lab up FILE builds one")
    if lab_name and lab_name not in labs:
        raise BadInput(f"no lab called {lab_name} is up; expected {', '.join(labs)}")
    if not lab_name and len(labs) > 1:
        raise BadInput(f"several labs are up; say which, as in {next(iter(labs))}/{host_name}")
    answer = labs[lab_name or next(iter(labs))]
    names = [keeper.hostname for keeper in answer.hosts]
    if host_name not in names:
        raise BadInput(f"no host is called {host_name}; expected {', '.join(names)}")
    if not command:
        raise BadInput("lab exec takes a command after --")
    lab = RunningLab(answer, None)
    keeper = answer.hosts[names.index(host_name)]
    environment = lab.environment(keeper, launch.clean_environment(os.environ))
    # Ctrl-C is the command's business; a handler, for an ignored signal would be inherited.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        return subprocess.run(lab.command(keeper, command), env=environment).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def down() -> int:
    """Take every standing lab of this user down and wait until it is gone."""
    labs = standing()
    if not labs:
        raise BadInput("no lab is up")
    for name, answer in labs.items():
        os.kill(answer.holder, signal.SIGTERM)
        deadline = time.monotonic() + DOWN_S
        while started_ticks(answer.holder) == answer.started:
            if time.monotonic() > deadline:
                os.kill(answer.holder, signal.SIGKILL)  # the kernel takes the rest with it
                deadline = time.monotonic() + DOWN_S
            time.sleep(0.02)
        print(f"lab {name} is down")
    standing()  # clears the file of a holder that had to be killed
    try:
        state_folder().rmdir()
    except OSError:
        pass  # another lab has come up meanwhile
    return 0


def standing() -> dict[str, Answer]:
    """The labs of this user that are up, by name; files of labs that died are removed."""
    found: dict[str, Answer] = {}
    if not os.path.lexists(_state_path()):
        return found
    for path in sorted(state_folder().glob("*.json")):
        try:
            data = path.open("rb").read(MAX_STATE_BYTES)
            answer = msgspec.json.decode(data, type=Answer)
        except (OSError, msgspec.DecodeError):
            continue
        if answer.started and started_ticks(answer.holder) == answer.started:
            found[path.stem] = answer
        else:
            path.unlink(missing_ok=True)
    return found


def state_folder() -> Path:
    """This user's own folder for the state of standing labs; made on first use."""
    folder = _state_path()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise BadInput(f"cannot be used: {error.strerror}", file=str(folder)) from None
    # In a shared /tmp somebody else could have put it there, with processes of ours to kill in it.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise BadInput("is not a private folder of this user; remove it", file=str(folder))
    return folder


def _state_path() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "fabric-bench")
    return Path(tempfile.gettempdir(), f"fabric-bench-{os.getuid()}")
