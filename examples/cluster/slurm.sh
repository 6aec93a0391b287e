#!/usr/bin/env bash
# A run as a Slurm job array, and a job that joins its parts when all tasks have ended:
#
#   bash slurm.sh 64 experiment.toml --data data --out runs/big
#
# The folders must be the same on all nodes. Options of sbatch are taken from the environment: SBATCH_PARTITION, SBATCH_TIMELIMIT,
# SBATCH_GPUS ... TRAJPRESS_PLAN="--sample 400" stands behind the arguments of `plan` alone. A task that is killed, requeued or done twice harms nothing. The same command goes on with what is left.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: bash slurm.sh TASKS EXPERIMENT --data DIR --out RUN" >&2; exit 2; }
tasks="$1"
shift
program="$(command -v trajpress)" || { echo "error: trajpress is not on PATH" >&2; exit 2; }
# shellcheck disable=SC2086 # several arguments
"$program" cluster plan "$@" ${TRAJPRESS_PLAN:-}
of="$(printf '%q ' "$@")"
array="$(sbatch --parsable --job-name=trajpress --requeue --array="0-$((tasks - 1))" \
  --wrap "exec $program run $of --shard \$SLURM_ARRAY_TASK_ID/\$SLURM_ARRAY_TASK_COUNT --threads \${SLURM_CPUS_PER_TASK:-1}")"
# `afterany`: where a task has failed, it says which units are missing.
sbatch --parsable --job-name=trajpress-merge --dependency="afterany:${array%%;*}" --wrap "exec $program cluster merge $of"
