"""Cycle-accurate ticks of a chip of spiking cores: sweeps, senders, mesh, receivers, barrier.

`docs/simulator.md` describes the machine. `chipsim.ticks.routes` computes the routes of each
neuron's packets; `chipsim.ticks.run` computes the cycles of ticks in which given neurons spike.
"""
