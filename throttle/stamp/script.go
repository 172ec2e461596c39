package stamp

import _ "embed"

//go:embed solver.js
var solverScript []byte

//go:embed fetch.js
var fetchScript []byte

// Scripts returns the files for browsers: solver.js, plain JavaScript that pays challenges of every algorithm in Web
// Workers, and fetch.js, a fetch that pays by itself with the solver beside it. The bytes must not be changed.
func Scripts() map[string][]byte {
	return map[string][]byte{"solver.js": solverScript, "fetch.js": fetchScript}
}
