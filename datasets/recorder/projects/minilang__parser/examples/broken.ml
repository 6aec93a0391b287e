# the closing parenthesis is missing
let width = 12 in
let height = (3 + 4 in
width * height
