"""The mesh flit by flit: routers, buffers and source queues, cycle by cycle.

`docs/simulator.md` describes the machine and the figures. `chipsim.noc.deliver` sends given packets
and says when each arrives; `chipsim.noc.load` measures latency and throughput under a random load;
`chipsim.noc.saturation` looks for the largest load that the mesh carries.
"""
