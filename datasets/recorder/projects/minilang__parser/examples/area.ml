# the area of a ring
let pi = 3.14159 in
let outer = 4 in
let inner = 2 in
pi * (outer ^ 2 - inner ^ 2)
