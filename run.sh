#!/usr/bin/env bash
# The front door: makes .venv on a bare machine, then does the main job. See ./run.sh --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Where torch brings no libnccl (a CPU build), this one is asked what NCCL would choose. It is not in
# constraints.txt because a CUDA build of torch insists on its own.
NCCL_PACKAGE="nvidia-nccl-cu13==2.32.3"
VENV=.venv
PYTHON=$VENV/bin/python
SWEEP=bench/sweep.py
SELF=${BASH_SOURCE[0]##*/} # as seen from the folder that this is now in

usage() {
    cat <<'HELP'
./run.sh [SWEEP OPTIONS]       install what is missing, then the main job: with
                               GPUs, sweep this host over NCCL; without, sweep a
                               virtual cluster whose interface is misselected;
                               where none can be built, this host over gloo
./run.sh lab FILE [--out DIR] [-- SWEEP OPTIONS]
                               build the virtual cluster of FILE and sweep it
                               (configs/labs/*.toml)
./run.sh nightly [LAB] [OPTIONS] [-- SWEEP OPTIONS]
                               the nightly job: sweep into reports/history, hold
                               it against the nights before, export. With GPUs
                               this host; without, a virtual cluster (LAB, or
                               configs/labs/healthy.toml) by the quick plan
./run.sh compare BEFORE AFTER  what a change did: reports, folders of them,
                               nccl-tests outputs
./run.sh compare --before "CMD" --after "CMD" [--sessions K]
                               measure both in turns first; {out} in CMD is the
                               session's own path, else what it prints is kept
./run.sh test [PYTEST ARGS]    lint, types, all tests; with arguments, only
                               pytest with them
./run.sh bench [NAME [ARGS]]   the benchmarks that print how fast and how exact
                               the sweep is: all of them, or one of
                               tests/performance/bench_NAME.py
./run.sh --help                this text

Sweep options are those of bench/sweep.py, such as --plan nightly or --out DIR.
A Python that already has torch is used as it is: .venv sees it and never
changes it. BASE_PYTHON=/path/to/python3 ./run.sh builds on that Python.
HELP
}

say() { printf 'run.sh: %s\n' "$*" >&2; }
fail() { say "$*"; exit 2; }

# The Python to build on: $BASE_PYTHON, else python3 of the caller's environment, else a versioned
# one. Our own .venv, if activated, is not it.
base_python() {
    local here="$PWD/$VENV/bin" candidate found path
    path=$(printf '%s' "$PATH" | tr ':' '\n' | grep -vxF "$here" | paste -sd: -)
    for candidate in ${BASE_PYTHON:+"$BASE_PYTHON"} python3 python3.13 python3.12 python3.11 python3.10; do
        found=$(PATH=$path command -v "$candidate" 2>/dev/null) || continue
        "$found" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue
        printf '%s' "$found"
        return
    done
    fail "needs Python 3.10 or newer; found none as python3 or python3.10 to python3.13"
}

# One line that changes when the environment must be built anew: which Python, whether it sees the
# system's packages, and the version and place of its torch.
describe_base() {
    "$1" - <<'PY'
import importlib.util, os, sys
from importlib.metadata import PackageNotFoundError, version
spec = importlib.util.find_spec("torch")
where, number = "", "none"
if spec and spec.origin:
    where = os.path.dirname(os.path.dirname(spec.origin))
    try:
        number = version("torch")
    except PackageNotFoundError:
        number = "unknown"
folders = ("site-packages", "dist-packages")
system = any(p.startswith(sys.base_prefix) and p.endswith(folders) for p in sys.path)
python = os.path.realpath(sys.executable) + " " + sys.version.split()[0]
print("|".join((python, "system" if system else "own", number, where)))
PY
}

make_venv() { # make_venv PYTHON TORCH_FOLDER SCOPE
    local base=$1 sees=$2 scope=$3 options=()
    [ -n "$sees" ] && [ "$scope" = system ] && options=(--system-site-packages)
    if ! "$base" -m venv "${options[@]}" "$VENV" >/dev/null 2>&1; then
        # Debian ships Python without ensurepip.
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "installing python3-venv"
            DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || true
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null || true
        fi
        rm -rf "$VENV"
        "$base" -m venv "${options[@]}" "$VENV" >/dev/null ||
            fail "$base cannot make a virtual environment; install its venv module (python3-venv)"
    fi
    [ -n "$sees" ] || return 0
    # When the current Python is itself a virtual environment, its packages are not "system" ones.
    printf 'import site; site.addsitedir(%s)\n' "$("$PYTHON" -c 'import sys; print(repr(sys.argv[1]))' "$sees")" \
        >"$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/existing-torch.pth"
}

pip_install() {
    local pip=("$PYTHON" -m pip install -qq --disable-pip-version-check --no-input --retries 2)
    # Without a network what is already there may be enough; that costs a second to find out.
    "${pip[@]}" "$@" || "${pip[@]}" --no-index --no-build-isolation "$@" 2>/dev/null
}

lacks_libnccl() { # a GPU build of torch has its own inside, and asking another would mislead
    "$PYTHON" - <<'PY'
import sys
import torch
from bench.facts.libraries import find_nccl
sys.exit(bool(find_nccl() or torch.version.cuda or torch.version.hip))
PY
}

# Two run.sh at once: the second waits, then finds everything installed. Descriptor 9 is open for
# writing, as NFS wants it; where there are no locks, or no right to write, nothing is waited for.
take_turns() {
    local held=0
    command -v flock >/dev/null && { exec 9<>.install.lock; } 2>/dev/null || return 0
    flock --nonblock 9 2>/dev/null || held=$?
    [ "$held" = 1 ] || return 0 # any other status is no word on who holds it
    say "waiting for another run.sh that is installing"
    held=0
    flock --timeout 1800 9 || held=$?
    [ "$held" != 1 ] || fail "another run.sh has been installing for 30 minutes"
}

install() { # install RUN|TEST: make $VENV hold what running, or testing, needs
    local kind=$1 base description stamp want
    take_turns
    base=$(base_python)
    description=$(describe_base "$base")
    stamp=$VENV/.installed-$kind
    want=$(cat pyproject.toml configs/constraints.txt "$SELF" | cksum)" $description"
    if [ -x "$PYTHON" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
        exec 9<&-
        return
    fi

    local scope torch sees
    IFS='|' read -r _ scope torch sees <<<"$description"
    if [ -n "$(ls "$VENV"/.installed-* 2>/dev/null)" ] &&
        [ "$(cat "$VENV/.base" 2>/dev/null)" != "$description" ]; then
        say "the current Python or its torch has changed; building $VENV anew"
        rm -rf "$VENV"
    fi
    if ! "$PYTHON" -m pip --version >/dev/null 2>&1; then # absent, moved, or half made
        rm -rf "$VENV"
        make_venv "$base" "$sees" "$scope"
    fi
    printf '%s\n' "$description" >"$VENV/.base"

    local extras="" constraints=configs/constraints.txt started=$SECONDS
    [ "$kind" = test ] && extras="[test]"
    if [ -n "$sees" ]; then
        say "using the torch $torch of $base as it is; installing what else is needed into $VENV"
        # Whatever is visible stays as it is, so that the benchmark runs the very stack it judges.
        constraints=$VENV/visible.txt
        "$PYTHON" -m pip list --format=freeze --disable-pip-version-check 2>/dev/null |
            grep -vE '^(nccl-fabric-bench|pip|setuptools)==' >"$constraints"
    else
        say "installing torch and the other requirements into $VENV (a few minutes the first time)"
    fi
    if ! pip_install -c "$constraints" -e ".$extras"; then
        [ -n "$sees" ] || fail "pip could not install the requirements; its words are above"
        say "not possible beside every installed version; keeping only torch fixed"
        grep -i '^torch==' "$constraints" >"$VENV/torch.txt" || true
        pip_install -c "$VENV/torch.txt" -e ".$extras" ||
            fail "pip could not install the requirements beside torch $torch (2.6 or newer is needed)"
    fi
    if lacks_libnccl; then
        pip_install --no-deps "$NCCL_PACKAGE" 2>/dev/null ||
            say "no libnccl for this platform; what NCCL would choose is predicted, not asked"
    fi
    say "installed in $((SECONDS - started)) s"
    printf '%s' "$want" >"$stamp"
    [ "$kind" = run ] || printf '%s' "$want" >"$VENV/.installed-run"
    exec 9<&-
}

# Programs that the tests use, as command:package of Debian.
TEST_PROGRAMS="iptables:iptables ip:iproute2 ping:iputils-ping iperf3:iperf3 chromium:chromium
slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge mpirun.openmpi:openmpi-bin
systemd-analyze:systemd"

install_test_programs() {
    local pair missing=()
    for pair in $TEST_PROGRAMS; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "tests need: ${missing[*]}"
        return 0
    fi
    say "installing ${missing[*]}"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
        >/dev/null 2>&1 || say "apt-get could not install ${missing[*]}"
}

install_for_tests() { # Debian's packages and pip's at once, unless pip itself has to come from Debian
    local base programs
    base=$(base_python)
    "$base" -c 'import ensurepip' 2>/dev/null || install test
    install_test_programs &
    programs=$!
    install test
    wait "$programs" || true
}

gpus() { # how many GPUs torch sees, without waiting for torch where there is no driver
    if [ -e /dev/nvidiactl ] || [ -e /dev/kfd ] || [ -e /dev/dxg ]; then
        "$PYTHON" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0
    else
        echo 0
    fi
}

check_options() { # a mistyped option is one sentence here, and under torchrun a page
    "$PYTHON" - "$@" <<'PY' || exit $?
import sys
from bench.plan import options
from bench.records import BadInput
try:
    options.parse(sys.argv[1:])
except BadInput as bad:
    sys.exit(print(f"fabric-bench: {bad}", file=sys.stderr) or 2)
PY
}

sweep_here() { # sweep_here RANKS [OPTIONS]: torchrun on this host, then the sweep's own exit status
    local ranks=$1 out="" previous="" option child status=0 logs=()
    shift
    for option in "$@"; do
        [ "$previous" = --out ] && out=$option
        case $option in
        --out=*) out=${option#--out=} ;;
        -h | --help) exec "$PYTHON" "$SWEEP" --help ;;
        esac
        previous=$option
    done
    if [ -z "$out" ]; then
        out=reports/$(date -u +%Y-%m-%dT%H-%M-%SZ)
        set -- "$@" --out "$out"
    fi
    [ -e "$out/report.json" ] && fail "$out holds a finished run; choose another folder with --out"
    rm -f "$out/status" 2>/dev/null || true
    # Else torchrun leaves a folder of its own among the temporary files.
    if mkdir -p "$out/torchrun" 2>/dev/null; then logs=(--log-dir "$out/torchrun"); fi
    # In the background of a script SIGINT is ignored unless job control gives it a group of its own;
    # both signals are then handed on, so that Ctrl-C and a stopped unit end the sweep cleanly.
    set -m
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$ranks" \
        ${logs[@]+"${logs[@]}"} "$SWEEP" "$@" &
    child=$!
    trap 'kill -INT "$child" 2>/dev/null' INT
    trap 'kill -TERM "$child" 2>/dev/null' TERM HUP
    while kill -0 "$child" 2>/dev/null; do
        status=0
        wait "$child" || status=$?
    done
    # torchrun turns every failure into 1; the sweep leaves its true status beside its report.
    if [ -s "$out/status" ]; then
        status=$(cat "$out/status")
    elif [ "$status" = 1 ]; then
        status=2
    fi
    exit "$status"
}

main_job() {
    local count why reason
    check_options "$@"
    count=$(gpus)
    if [ "$count" -ge 2 ]; then
        say "$count GPUs: sweeping this host over NCCL"
        sweep_here "$count" "$@"
    fi
    why="no GPU"
    [ "$count" = 1 ] && why="one GPU, which has no peer on this host"
    if reason=$("$PYTHON" -m bench lab check 2>&1); then
        say "$why: sweeping the virtual cluster of configs/labs/misselected.toml over gloo"
        if [ $# -gt 0 ]; then set -- -- "$@"; fi
        exec "$PYTHON" -m bench lab run configs/labs/misselected.toml "$@"
    fi
    say "$why, and no virtual cluster (${reason#fabric-bench: }):" \
        "sweeping this host over gloo with 2 ranks"
    sweep_here 2 "$@"
}

nightly_job() { # nightly_job [LAB] [OPTIONS OF bench nightly]
    local lab="" count reason
    if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
        lab=$1
        shift
    fi
    case " $* " in
    *" --judge "* | *" --judge="* | *" --help "* | *" -h "*) exec "$PYTHON" -m bench nightly "$@" ;;
    esac
    if [ -z "$lab" ]; then
        count=$(gpus)
        if [ "$count" -ge 2 ]; then exec "$PYTHON" -m bench nightly "$@"; fi
        if reason=$("$PYTHON" -m bench lab check 2>&1); then
            lab=configs/labs/healthy.toml
        else
            say "no two GPUs and no virtual cluster (${reason#fabric-bench: }): this host over gloo"
            exec "$PYTHON" -m bench nightly --plan quick "$@"
        fi
    fi
    say "the night of a virtual cluster, $lab, by the quick plan unless you say --plan"
    exec "$PYTHON" -m bench nightly --lab "$lab" --plan quick "$@"
}

benchmarks() {
    local file status=0
    install_for_tests
    if [ $# -gt 0 ]; then
        file=tests/performance/bench_$1.py
        shift
        [ -f "$file" ] || fail "no such benchmark: $file"
        exec "$PYTHON" "$file" "$@"
    fi
    for file in tests/performance/bench_*.py; do
        say "$file"
        "$PYTHON" "$file" || status=1
    done
    exit $status
}

test_all() {
    install_for_tests
    if [ $# -gt 0 ]; then exec "$PYTHON" -m pytest "$@"; fi
    "$VENV/bin/ruff" check .
    "$VENV/bin/ruff" format --check .
    "$VENV/bin/mypy"
    # Hundreds of short processes start: each compiling all modules anew would be most of their work.
    unset PYTHONDONTWRITEBYTECODE
    # What judges measured figures has the machine to itself, the rest shares its cores, one
    # process more than they are because clusters wait. Half an hour for either: what hangs must not hang for ever.
    local status=0
    "$PYTHON" -m pytest --durations 15 --session-timeout 1800 -m "not measures" \
        --numprocesses "$(($(nproc) < 8 ? $(nproc) + 1 : 8))" --dist loadfile \
        --no-loadscope-reorder || status=$?
    "$PYTHON" -m pytest --durations 15 --session-timeout 1800 -m measures || status=$?
    return "$status"
}

case ${1:-} in
-h | --help | help) usage ;;
test) shift; test_all "$@" ;;
bench) shift; benchmarks "$@" ;;
lab)
    shift
    [ $# -gt 0 ] || fail "which lab? ./run.sh lab configs/labs/healthy.toml"
    install run
    exec "$PYTHON" -m bench lab run "$@"
    ;;
nightly) shift; install run; nightly_job "$@" ;;
compare)
    shift
    install run
    exec "$PYTHON" -m bench compare "$@"
    ;;
"" | -*) install run; main_job "$@" ;;
*) fail "unknown command '$1'; expected nightly, compare, lab, test, bench or options of the sweep (see --help)" ;;
esac
