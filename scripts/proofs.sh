#!/bin/sh
# Prove properties of the hardware and simulate large designs, which takes minutes, if their sources
# have changed since that last passed: tests/hw/proved.txt, to be committed, holds their hash then.
extras=dev
. "$(dirname "$0")/setup.sh"
unset PYTHONDONTWRITEBYTECODE

record=tests/hw/proved.txt
digest=$(find hw tests/hw chipsim -name '*.py' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
if [ "$(cat $record)" = "$digest" ]; then
    echo "hardware: proved before, sources unchanged ($record)"
    exit
fi
# A solver takes a core for half a minute, a chip for some: together they keep all cores busy.
python -m pytest --thorough -n auto --dist worksteal -q -m "slow_hw or formal" tests/hw
echo "$digest" >$record
echo "hardware: proved; commit $record"
