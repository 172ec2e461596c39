package stamp

import _ "embed"

//go:embed solver.js
var solverScript []byte

// Script returns the solver for browsers: plain JavaScript that pays challenges in Web Workers (sha256-k, dlog and dlog-classic) and
// needs nothing from elsewhere. The bytes must not be changed.
func Script() []byte { return solverScript }
