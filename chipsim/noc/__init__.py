"""Flit-level simulation of the mesh: routers, buffers and source queues, cycle by cycle.

`docs/simulator.md` describes the machine and the metrics. `chipsim.noc.deliver` sends given packets
and returns their arrival times; `chipsim.noc.load` measures latency and throughput under a random
load; `chipsim.noc.saturation` searches the largest load that the mesh carries.
"""
