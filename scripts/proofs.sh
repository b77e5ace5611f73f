#!/bin/sh
# Prove properties of the hardware, simulate large designs, and test mutants of its sources. This
# takes minutes and is skipped if the code of the sources is unchanged since the last success; comments
# and docstrings do not count. Commit tests/hw/proved.txt, which holds its hash.
extras=dev
. "$(dirname "$0")/setup.sh"
unset PYTHONDONTWRITEBYTECODE

record=tests/hw/proved.txt
amaranth=$(.venv/bin/python -c 'import amaranth; print(amaranth.__version__)')
digest=$(
    { echo "$amaranth"; .venv/bin/python scripts/code_digest.py hw chipsim tests/hw --used tests.reference; } |
        sha256sum | cut -d' ' -f1
)
if [ "$(cat $record)" = "$digest" ]; then
    echo "hardware: already proved, sources unchanged ($record)"
    exit
fi
# Proofs and simulations take half a minute to minutes each; in parallel they use all processors.
python -m pytest --thorough -n auto --dist worksteal -q -m "slow_hw or formal" tests/hw
echo "$digest" >$record
echo "hardware: proved; commit $record"
