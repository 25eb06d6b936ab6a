#!/usr/bin/env bash
# The nightly job by mpirun, for hosts that it reaches by ssh or a scheduler that it knows:
#
#   configs/schedulers/mpirun.sh HOST1,HOST2,… RANKS_PER_HOST [SWEEP OPTIONS]
#
# Open MPI, MPICH and Intel MPI; MPIRUN=/path/to/mpirun chooses one. Run it on HOST1, in a checkout
# that lies at the same path on all hosts and in which ./run.sh has made .venv.
set -u
[ $# -ge 2 ] || { echo "usage: ${0##*/} HOST1,HOST2,… RANKS_PER_HOST [SWEEP OPTIONS]" >&2; exit 2; }
hosts=$1 per_host=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
. .venv/bin/activate || exit 2
export OMP_NUM_THREADS=1

# mpirun tells its ranks neither where rank 0 is nor a port: one for each job, below what Linux
# hands out by itself.
export MASTER_ADDR=${MASTER_ADDR:-${hosts%%,*}} MASTER_PORT=${MASTER_PORT:-$((15000 + RANDOM % 10000))}
run=reports/history/$(date -u +%Y-%m-%dT%H-%M-%SZ)
count=$(($(tr -cd , <<<"$hosts" | wc -c) + 1))

# Unbound, because a rank that was pinned to one core would measure that core. A rank that ends
# early is a finding of rank 0's, and no reason to kill rank 0.
mpirun=${MPIRUN:-mpirun}
case $("$mpirun" --version 2>&1) in
*"Open MPI"* | *OpenRTE* | *PRRTE*)
    start=(--host "$(sed "s/,/:$per_host,/g" <<<"$hosts"):$per_host" -np $((count * per_host))
        --map-by "ppr:$per_host:node" --bind-to none -wdir "$PWD"
        -x MASTER_ADDR -x MASTER_PORT -x OMP_NUM_THREADS)
    export OMPI_MCA_orte_abort_on_non_zero_status=0
    [ "$(id -u)" != 0 ] || start+=(--allow-run-as-root)
    ;;
*HYDRA* | *Intel*)
    start=(-hosts "$hosts" -n $((count * per_host)) -ppn "$per_host" -bind-to none -wdir "$PWD"
        -genvlist MASTER_ADDR,MASTER_PORT,OMP_NUM_THREADS,PATH)
    ;;
*) echo "${0##*/}: $mpirun is neither Open MPI nor MPICH" >&2; exit 2 ;;
esac

# Told to end, mpirun leaves its ranks a second, too little for a report. Rank 0, a process of this
# host that is noted in the run's folder, is told instead: it ends the sweep for all.
end_sweep() {
    local rank_0=none
    [ ! -s "$run/.lock" ] || rank_0=$(<"$run/.lock")
    grep -qsF bench/sweep.py "/proc/$rank_0/cmdline" || rank_0=$!
    kill -TERM "$rank_0" 2>/dev/null
}
trap end_sweep INT TERM HUP
"$mpirun" "${start[@]}" "$PWD/.venv/bin/python" bench/sweep.py --plan nightly --out "$run" "$@" &
while kill -0 $! 2>/dev/null; do wait $!; done

# Whatever came of it stands in the folder; the exit status is the night's verdict.
exec python -m bench nightly --judge "$run"
