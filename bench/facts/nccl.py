"""What would NCCL choose? Asked of the real library on a host without a GPU, else predicted.

`ncclGetUniqueId` runs NCCL's bootstrap selection on the CPU alone; its log line and the returned
id (8 bytes of magic, then a sockaddr) name the interface. NCCL reads its environment once, so
each question needs a fresh process: a bare interpreter that loads ctypes and nothing else (25 ms).
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bench.facts import libraries, nccl_conf, nccl_rules
from bench.records import Interface, NcclChoice

ANSWER_WITHIN_S = 20.0  # a healthy answer takes 25 ms; a library on a cold network disk, seconds
ATTEMPTS = 2  # an answer may get lost when the process ends while NCCL's thread still writes
NCCL_SUCCESS = 0

# The library logs to stdout from a thread of its own; our answer goes to stderr so that the two
# never mix. os._exit, because unloading NCCL under its running thread can crash.
_CHILD = """
import ctypes, os, sys
nccl = ctypes.CDLL(sys.argv[1])
version = ctypes.c_int(0)
nccl.ncclGetVersion(ctypes.byref(version))
unique_id = ctypes.create_string_buffer(128)
code = nccl.ncclGetUniqueId(unique_id)
ctypes.CDLL(None).fflush(None)
os.write(2, ("ANSWER %d %d %s\\n" % (version.value, code, unique_id.raw.hex())).encode())
os._exit(0)
"""
_ANSWER = re.compile(r"^ANSWER (\d+) (-?\d+) ([0-9a-f]{256})$", re.MULTILINE)
_BOOTSTRAP = re.compile(r"NCCL INFO (Bootstrap ?: Using (?:\[0\])?(\S+?)<\d+>.*)")

# What the question itself needs, whatever the environment or a conf file says. Empty is "unset"
# for the file: a log file would hide the line.
_QUESTION = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,BOOTSTRAP",
    "NCCL_DEBUG_FILE": "",
    "NCCL_RAS_ENABLE": "0",
}


def ask(
    setting: str | None,
    *,
    environment: Mapping[str, str] | None = None,
    library: Path | None = None,
) -> NcclChoice:
    """What the real NCCL takes for NCCL_SOCKET_IFNAME=`setting`; never raises.

    `environment` holds the NCCL_* variables of the question; left out, they are this process's
    own when `setting` is None ("the environment as it is", conf files included), and none
    otherwise. Without an answer `code` is None and `line` says why. At most 2 x 20 s.
    """
    path = library or libraries.find_nccl()
    if path is None:
        return NcclChoice(setting=setting, basis="asked", line="no libnccl found")
    if environment is None:
        environment = os.environ if setting is None else {}
    child = {key: value for key, value in os.environ.items() if not key.startswith("NCCL_")}
    child |= {key: value for key, value in environment.items() if key.startswith("NCCL_")}
    child |= _QUESTION
    if setting is not None:
        child["NCCL_SOCKET_IFNAME"] = setting
    why = ""
    for _ in range(ATTEMPTS):
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _CHILD, str(path)],
                env=child,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ANSWER_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"no answer from {path.name} within {ANSWER_WITHIN_S:.0f} s"
            continue
        except (OSError, ValueError) as error:  # ValueError: a NUL inside the setting
            why = f"could not ask {path.name}: {error}"
            continue
        log, answer = (part.decode(errors="replace") for part in (done.stdout, done.stderr))
        if match := _ANSWER.search(answer):
            return _choice(setting, log, match)
        reason = answer.strip().splitlines()
        why = f"no answer from {path.name}: {reason[-1] if reason else f'exit {done.returncode}'}"
    return NcclChoice(setting=setting, basis="asked", line=why)


def _choice(setting: str | None, log: str, answer: re.Match[str]) -> NcclChoice:
    code = int(answer[2])
    name = address = None
    line = _BOOTSTRAP.search(log)
    if line is not None:
        name, address = _split(line[2])
    if address is None and code == NCCL_SUCCESS:
        address = _socket_address(bytes.fromhex(answer[3])[8:])
    complaint = re.search(r"NCCL WARN (.*)", log)
    told = line[1] if line else complaint[1] if complaint else None
    return NcclChoice(
        setting=setting,
        basis="asked",
        bootstrap=name,
        address=address,
        interfaces=(name,) if name else (),
        code=code,
        line=told.strip() if told else None,
        nccl_version=version_name(int(answer[1])),
    )


def _split(text: str) -> tuple[str | None, str | None]:
    """ "eth0:1:10.0.0.1" -> ("eth0:1", "10.0.0.1"): a name may hold a colon, as addresses do."""
    for place, letter in enumerate(text):
        if letter == ":":
            address = text[place + 1 :]
            try:
                ipaddress.ip_address(address.partition("%")[0])
            except ValueError:
                continue
            return text[:place], address.partition("%")[0]
    return None, None


def _socket_address(raw: bytes) -> str | None:
    (family,) = struct.unpack_from("=H", raw)
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[4:8])
    if family == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, raw[8:24])
    return None


def version_name(code: int) -> str | None:
    """ncclGetVersion's number as NCCL prints it: 23203 -> "2.32.3", 2708 -> "2.7.8"."""
    if code <= 0:
        return None
    scale = 10_000 if code >= 10_000 else 1_000  # NCCL_VERSION changed its factor with 2.9
    return f"{code // scale}.{code % scale // 100}.{code % 100}"


def choose(
    setting: str | None,
    interfaces: Sequence[Interface],
    *,
    environment: Mapping[str, str] | None = None,
    library: Path | None = None,
    asking: bool = True,
) -> NcclChoice:
    """As `ask`, with all interfaces that match; predicted by our rules where nobody answers.

    The list of all matches is always our prediction: NCCL tells only the first one on a CPU.
    """
    effective = _effective(setting, environment)
    rules = {
        "family": effective.get("NCCL_SOCKET_FAMILY"),
        "comm_id": effective.get("NCCL_COMM_ID"),
    }
    wanted = effective.get("NCCL_SOCKET_IFNAME")
    path = (library or libraries.find_nccl()) if asking else None
    asked = ask(setting, environment=environment, library=path) if path else None
    version = asked.nccl_version if asked else None
    devices = nccl_rules.matching(wanted, interfaces, version=version, **rules)
    first = nccl_rules.bootstrap(wanted, interfaces, version=version, **rules)
    if asked is not None and asked.code is not None:
        if asked.bootstrap == (first.name if first else None):
            return msgspec.structs.replace(asked, interfaces=devices)
        return asked  # the library wins, and our list of matches is not to be trusted either
    return NcclChoice(
        setting=setting,
        basis="predicted",
        bootstrap=first.name if first else None,
        address=first.address if first else None,
        interfaces=devices,
        line=asked.line if asked else None,
    )


def _effective(setting: str | None, environment: Mapping[str, str] | None) -> dict[str, str]:
    """The NCCL settings of a question: conf files below its environment, the setting on top."""
    if environment is None:
        environment = os.environ if setting is None else {}
    files, _ = nccl_conf.read(environment)
    effective = nccl_conf.effective(environment, files)
    if setting is not None:
        effective["NCCL_SOCKET_IFNAME"] = setting
    return effective
