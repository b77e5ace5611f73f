#!/bin/sh
# Prove properties of the hardware, simulate large designs, and try faults in its sources, which
# takes minutes, if the sources have changed since all of that last passed: tests/hw/proved.txt, which
# is to be committed, holds their hash.
extras=dev
. "$(dirname "$0")/setup.sh"
unset PYTHONDONTWRITEBYTECODE

record=tests/hw/proved.txt
amaranth=$(.venv/bin/python -c 'import amaranth; print(amaranth.__version__)')
digest=$(
    { echo "$amaranth"; find hw chipsim tests/hw tests/reference -name '*.py' | LC_ALL=C sort | xargs sha256sum; } |
        sha256sum | cut -d' ' -f1
)
if [ "$(cat $record)" = "$digest" ]; then
    echo "hardware: proved before, sources unchanged ($record)"
    exit
fi
# A solver takes a core for half a minute, a chip for some: together they keep all cores busy.
python -m pytest --thorough -n auto --dist worksteal -q -m "slow_hw or formal" tests/hw
echo "$digest" >$record
echo "hardware: proved; commit $record"
