Creator "igraph"
graph
[
  directed 1
  # a comment
  node [ id 0 label "a &#233;" population "e" graphics [ x 1.5 y 2 ] ]
  node [ id 1 label "b ]" ]
  node [ id 7 label "c" population "i" ]
  edge [ source 0 target 1 weight 0.5 note "x" ]
  edge [ source 1 target 7 weight -2 ]
]
