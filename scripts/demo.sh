#!/bin/sh
# Map a real network: a tenth of the cortical microcircuit of Potjans and Diesmann (2014) onto 8x8
# cores of 128 neurons. Results are written to demo/.
. "$(dirname "$0")/setup.sh"

mkdir -p demo
mapper generate microcircuit demo/microcircuit.bin --scale 0.1 --seed 1
mapper run demo/microcircuit.bin --chip 8x8 --neurons-per-core 128 --seed 1 -o demo/result --force
mapper verify demo/result
echo "open demo/result/report.html in a browser"
echo "same folder: report.json, mapping.npz, traffic.npz, run.log"
