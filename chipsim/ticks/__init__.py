"""Ticks of a chip of spiking cores, cycle by cycle: sweeps, senders, the mesh, receivers, barrier.

`docs/simulator.md` describes the machine. `chipsim.ticks.routes` holds where the packets of each
neuron go, `chipsim.ticks.run` says how many cycles ticks take in which given neurons spike.
"""
